"""Python children of tests, forked by a server that has imported everything already.

The first test that wants a child starts the server, and all others of the run find it by its socket in the run's
directory. See `fork_server` for the other side.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from tests.support import clusters

ROOT: Final = Path(__file__).parents[2]
DIRECTORY: Final = clusters.DIRECTORY_VARIABLE
STARTING: Final = 120.0  # seconds for the server to import everything, on a busy machine
ANSWER: Final = 4096
STARTED_WITH: Final = dict(os.environ)
# What it has loaded takes 400 MB: with small pages alone a fork of it costs 24 ms of processor time, with these 9
LARGE_PAGES: Final = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
# Read when a command runs. Any other variable may be read by an import, which the server has behind it.
READ_LATE: Final = ("PENSTOCK_", "LANE_", "PYTEST_", "TMPDIR", "TZ")


class ForkServerGone(RuntimeError):
    """Nobody forks any more, or tells how a fork has ended."""


class Child:
    """A forked process, with what tests use of `subprocess.Popen`."""

    def __init__(self, args: Sequence[str], connection: socket.socket, log: Path, **outputs: IO[str] | None) -> None:
        self.args = list(args)
        self.stdout, self.stderr = outputs.get("stdout"), outputs.get("stderr")
        self.returncode: int | None = None
        self._connection = connection
        self._log = log
        self.pid: int = self._answer("pid")

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it lives."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Signal it, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended just now
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the outputs and wait for the end, as `Popen` does."""
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is not None:
            return self.returncode
        if self._connection.fileno() < 0 or select.select([self._connection], [], [], timeout)[0]:
            self.returncode = os.waitstatus_to_exitcode(self._answer("status"))
            self._connection.close()
        return self.returncode

    def _answer(self, what: str) -> int:
        try:
            said = self._connection.recv(ANSWER)
        except OSError:  # reset, or closed since it was
            said = b""
        if not said:
            self._connection.close()
            raise gone(self._log, f"the {what} of {self.args} is not known")
        found: int = json.loads(said)[what]
        return found


@dataclass(frozen=True)
class ForkServer:
    """The server of one directory, whose `run.lock` somebody holds as long as it is wanted."""

    directory: Path
    preload: bool = True

    def start(
        self, arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path | str = ROOT, stdin: int | None = None,
        stdout: int | IO[Any] | None = None, stderr: int | IO[Any] | None = None,
    ) -> Child:  # fmt: skip
        """Fork what `python` with *arguments* would be; `-m` and files are known. Its input is empty unless given."""
        order = {"arguments": list(arguments), "environment": dict(env), "directory": str(cwd)}
        # The fork's ends are closed here in any case, or a reader would never see the end of a pipe.
        with ExitStack() as ends, ExitStack() as on_failure:
            connection = on_failure.enter_context(self._connect())
            null = ends.enter_context(Path(os.devnull).open("r+b"))
            streams, pipes = [null.fileno() if stdin is None else stdin], {}
            for number, (name, given) in enumerate({"stdout": stdout, "stderr": stderr}.items(), start=1):
                if given == subprocess.PIPE:
                    reading, writing = os.pipe()
                    pipes[name] = on_failure.enter_context(os.fdopen(reading))
                    streams.append(ends.enter_context(os.fdopen(writing, "wb")).fileno())
                elif given == subprocess.DEVNULL:
                    streams.append(null.fileno())
                else:
                    streams.append(_descriptor(number if given is None else given))
            try:
                socket.send_fds(connection, [json.dumps(order).encode()], streams)
            except OSError as error:
                raise gone(self._log, f"it did not take {[*arguments]} ({error.strerror})") from error
            child = Child([sys.executable, *arguments], connection, self._log, **pipes)
            on_failure.pop_all()
            return child

    @property
    def _path(self) -> Path:
        return self.directory / "forks.socket"

    @property
    def _log(self) -> Path:
        return self.directory / "forks.log"

    def _connect(self) -> socket.socket:
        self.begin()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(str(self._path))
        except OSError as error:
            connection.close()
            raise gone(self._log, f"{self._path} does not answer ({error.strerror})") from error
        return connection

    def begin(self) -> None:
        """Start the server, unless it is there or another process of the run does."""
        if self._path.exists():
            return
        with clusters.exclusive(self.directory / "forks.lock"), self._log.open("a") as log:
            if self._path.exists():
                return
            options = ["--preload"] if self.preload else []
            module = ["-m", "tests.support.fork_server", str(self._path), str(self.directory / "run.lock")]
            done = subprocess.run(
                [sys.executable, *module, *options], cwd=ROOT, env={**STARTED_WITH, **LARGE_PAGES},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=STARTING, check=False,
            )  # fmt: skip
        if done.returncode != 0:
            raise gone(self._log, f"it did not start (exit code {done.returncode})")


def gone(log: Path, why: str) -> ForkServerGone:
    """The error that tells *why*, and what the server has written."""
    said = log.read_text(errors="replace")[-4000:] if log.exists() else ""
    return ForkServerGone(f"the fork server has gone: {why}. It said:\n{said or 'nothing'}")


def known(env: Mapping[str, str]) -> bool:
    """Whether a fork with *env* is as good as a fresh process: its imports would have read the same."""
    return DIRECTORY in os.environ and _read_early(env) == _read_early(STARTED_WITH)


def begin() -> None:
    """Start the server before anybody wants a child."""
    ForkServer(Path(os.environ[DIRECTORY])).begin()


def start(arguments: Sequence[str], **options: Any) -> Child:
    """Fork what `python` with *arguments* would be; see `ForkServer.start`."""
    return ForkServer(Path(os.environ[DIRECTORY])).start(arguments, **options)


def run(arguments: Sequence[str], *, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
    """Fork it and wait for its end; outputs that are not named are captured."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = start(arguments, **{"stdout": out, "stderr": err, **options})
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(child.args, code, out.read(), err.read())


def _read_early(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith(READ_LATE)}


def _descriptor(stream: int | IO[Any]) -> int:
    return stream if isinstance(stream, int) else stream.fileno()
