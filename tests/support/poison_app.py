"""An application some of whose jobs end the process that runs them, each in a way of its own."""

import asyncio
import ctypes
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from penstock import Job, Penstock, Schedule
from penstock.contract.policies import Limits

app = Penstock()
SOON = Schedule([0.01])


def _segfault() -> None:
    ctypes.string_at(0)


def _exhaust_memory() -> None:
    """Allocate until the system refuses, and end as the kernel ends a process then."""
    resource.setrlimit(resource.RLIMIT_AS, (2**30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    hoard = []
    try:
        while True:
            hoard.append(bytearray(2**24))
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)


ENDS: Final[dict[str, Callable[[], object]]] = {
    "exit": lambda: os._exit(3),
    "segfault": _segfault,
    "memory": _exhaust_memory,
}


async def work(args: dict[str, Any]) -> None:
    """Run for a moment, so that others run beside it; then end the process, or wait for a file."""
    await asyncio.sleep(args.get("seconds", 0.02))
    if "how" in args:
        ENDS[args["how"]]()
    while "until" in args and not Path(args["until"]).exists():  # noqa: ASYNC110, ASYNC240 - made by the test
        await asyncio.sleep(0.01)


@app.job("mixed", attempts=2, backoff=SOON)
async def mixed(args: dict[str, Any]) -> None:
    """Some of these end their process."""
    await work(args)


@app.job("limited", attempts=2, backoff=SOON, limits=Limits(running=5))
async def limited(args: dict[str, Any]) -> None:
    """The same under a limit."""
    await work(args)


@app.job("unhurried", stale_counts_attempt=False, max_reclaims=1)
async def unhurried(args: dict[str, Any]) -> None:
    """The same for a type whose reclaims are counted."""
    await work(args)


@app.job("regretful", attempts=3, backoff=SOON)
async def regretful(job: Job, args: dict[str, Any]) -> None:
    """End the process the first time, fail the second time, go well the third time."""
    await work({**args, "how": "exit"} if job.attempt == 1 else args)
    if job.attempt == 2:
        raise ConnectionResetError


staged = app.type("staged", stages=("first", "second"), attempts=2, backoff=SOON)


@staged.stage("first")
async def first(args: dict[str, Any]) -> int:
    """Go well."""
    return int(args["n"])


@staged.stage("second")
async def second(args: dict[str, Any]) -> None:
    """Some of these end their process."""
    await work(args)
