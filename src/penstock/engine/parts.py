"""Tasks that run beside a main loop: none of them ends without being noticed.

A worker whose heartbeat, recorder or listener has ended looks alive and is
not: its leases run out, its ends are not written, its pokes are not heard. So
the start of such a task says what follows when it ends by itself.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.contract.errors import PartEnded
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Ended = Callable[[str, BaseException], None]


class Parts:
    """Starts tasks, and calls *ended(name, error)* for each that raises, is cancelled by others or returns early."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str, *, lasting: bool = False) -> asyncio.Task[Any]:
        """Run *work* beside the caller; one that is *lasting* does not return before `end`."""
        task = asyncio.create_task(work, name=f"penstock-{name}")
        self._tasks.add(task)
        task.add_done_callback(partial(self._over, name, lasting))
        return task

    def release(self, task: asyncio.Task[Any]) -> None:
        """*task* may return now."""
        self._tasks.discard(task)

    async def end(self, task: asyncio.Task[Any] | None) -> None:
        """Cancel *task* and wait for its end, which nobody is surprised by."""
        if task is not None:
            self.release(task)
            task.cancel()
            await asyncio.wait({task})

    def _over(self, name: str, lasting: bool, task: asyncio.Task[Any]) -> None:
        error = PartEnded(name, "it was cancelled") if task.cancelled() else task.exception()
        if task not in self._tasks:
            return  # `end` or `release` came first
        self._tasks.discard(task)
        if error is None and lasting:
            error = PartEnded(name, "it returned")
        if error is not None:
            events.part_ended(name, type(error).__name__)
            self._ended(name, error)
