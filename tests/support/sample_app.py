"""An application for tests that run real worker processes.

Handlers tell the test what they do through log lines of the engine, files the
test names, and the database: never through time.
"""

import asyncio
import gc
import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from penstock import FailureClass, Job, Penstock, Schedule
from penstock.contract.errors import Failed

app = Penstock()
SOON = Schedule([0.01])
hoard: list[bytes] = []


@app.job("noop")
async def noop(args: dict[str, Any]) -> None:
    """Nothing."""


@app.job("item", log_ids=("item_id",))
async def item(args: dict[str, Any]) -> None:
    """Nothing, about an item."""


@app.job("weigh")
async def weigh(args: dict[str, Any]) -> None:
    """Write down how much the garbage collector is told to leave alone."""
    Path(args["note"]).write_text(str(gc.get_freeze_count()), encoding="utf-8")  # noqa: ASYNC240 - one file of a test


@app.job("held", lease=timedelta(minutes=5))
async def held(args: dict[str, Any]) -> None:
    """Run until the file of the payload is there; write another one when stopped."""
    try:
        await _until(Path(args["until"]))
    except asyncio.CancelledError:
        if "stopped" in args:
            Path(args["stopped"]).touch()  # noqa: ASYNC240 - one file of a test
        raise


@app.job("blocking")
async def blocking(args: dict[str, Any]) -> None:
    """Block the event loop until the file is there."""
    while not Path(args["until"]).exists():  # noqa: ASYNC240 - it blocks on purpose
        time.sleep(0.01)  # noqa: ASYNC251 - the same


@app.job("threaded")
def threaded(args: dict[str, Any]) -> None:
    """Run in a thread until the file is there."""
    while not Path(args["until"]).exists():
        time.sleep(0.01)


@app.job("meddling")
async def meddling(args: dict[str, Any]) -> None:
    """Cancel a task that is not its own, once."""
    flag = Path(args["once"])
    if not flag.exists():  # noqa: ASYNC240 - one file of a test
        flag.touch()  # noqa: ASYNC240 - the same
        (part,) = (task for task in asyncio.all_tasks() if task.get_name() == args["part"])
        part.cancel()


@app.job("flaky", attempts=2, backoff=SOON)
async def flaky(job: Job, args: dict[str, Any]) -> None:
    """Fail once, then succeed."""
    if job.attempt == 1:
        raise ConnectionResetError(args.get("text", ""))


@app.job("doomed", attempts=2, backoff=SOON)
async def doomed(args: dict[str, Any]) -> None:
    """Fail whenever it runs, until the budget is spent."""
    raise ConnectionResetError(args.get("text", ""))


@app.job("refused")
async def refused(args: dict[str, Any]) -> None:
    """Fail for good at once."""
    raise Failed(FailureClass.SCHEMA_INVALID)


@app.job("chatty", attempts=1)
async def chatty(args: dict[str, Any]) -> None:
    """Fail with the payload's text in every error there is, also one that nobody fetches."""

    async def forgotten() -> None:
        raise ValueError(args["text"])

    task = asyncio.get_running_loop().create_task(forgotten())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task
    raise RuntimeError(args["text"])


@app.job("poison", attempts=2, backoff=SOON)
async def poison(args: dict[str, Any]) -> None:
    """End the process as the kernel does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


@app.job("hoarder")
async def hoarder(args: dict[str, Any]) -> None:
    """Hold on to memory."""
    hoard.append(b"x" * args["bytes"])


async def _until(path: Path) -> None:
    while not path.exists():  # noqa: ASYNC110, ASYNC240 - a file is what a test can make from another process
        await asyncio.sleep(0.01)
