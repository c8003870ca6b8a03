"""Running git on a repository that somebody else writes to.

What a repository's own configuration can start (hooks, monitors, pagers,
external diffs, conversions, transports) is switched off by flags and settings
that go before it. Nothing of the machine's or the user's configuration is
read. Output is broken off at its limit, and a program that takes too long is
killed with everything that it has started.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.apps.review.sources.port import too_large
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from asyncio.subprocess import Process

SECONDS: Final = 60.0  # for all that one changelist takes
_CHUNK: Final = 65_536
_OFF: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "core.bigFileThreshold=64m",  # a larger file is binary to it, and is not held
    "protocol.allow=never",
)
_ENVIRONMENT: Final = {
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "XDG_CONFIG_HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # no object is fetched from anywhere, whatever the repository promises
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it wrote."""

    code: int
    output: bytes = field(repr=False)


async def run(directory: Path, *arguments: str, most: int) -> Ran:
    """Run `git` with *arguments* on the repository in *directory*; more than *most* bytes are `PAYLOAD_REJECTED`.

    Naming the directory itself keeps git from looking for another one above it,
    and from asking who owns it: whoever runs the application has named it.
    """
    settings = [part for setting in (*_OFF, f"safe.directory={directory}") for part in ("-c", setting)]
    process = await _start("--no-pager", f"--git-dir={directory}", *settings, *arguments)
    try:
        output = await _read(process, most)
        return Ran(await process.wait(), output)
    finally:
        await _end(process)


async def _start(*arguments: str) -> Process:
    """Start git, in a group of its own. Whoever gives up meanwhile waits until it can be ended as a group."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            "git", *arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            env={**_ENVIRONMENT, "PATH": os.environ.get("PATH", os.defpath)}, cwd="/", start_new_session=True,
        )
    )  # fmt: skip
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):
            await _end(await starting)
        raise
    except FileNotFoundError:
        raise Failed(FailureClass.CONFIG_INVALID, "git is not installed where the worker runs") from None
    except OSError:  # no process, no memory, no file left: it may pass
        raise Failed(FailureClass.UPSTREAM_5XX, "git could not be started") from None


async def _read(process: Process, most: int) -> bytes:
    output = bytearray()
    while chunk := await _chunk(process):
        output += chunk
        if len(output) > most:
            raise too_large(most)
    return bytes(output)


async def _chunk(process: Process) -> bytes:
    return await process.stdout.read(_CHUNK) if process.stdout else b""


async def _end(process: Process) -> None:
    """Leave no process and no pipe behind, however the reading ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        while await _chunk(process):
            pass
        await process.wait()
