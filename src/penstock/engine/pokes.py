"""Pokes: sent after the commit, outside the producing transaction, and at most one per channel every few milliseconds.

NOTIFY inside a transaction takes a database-wide lock at commit, which caps
the rate of all commits. So the first poke goes out at once, and those that
follow within a few milliseconds go out together as one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from penstock.store import connect
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

FLUSH_SECONDS: Final = 2.0  # how long an exit waits for the last pokes


class Pokes:
    """Coalesces pokes and hands them to *notify*; belongs to the event loop it is made in."""

    def __init__(self, notify: Callable[[str, str], Awaitable[None]], seconds: float) -> None:
        self._notify = notify
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._wanted: dict[str, str] = {}  # channel → a type; '' when several
        self._resting: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, channel: str, job_type: str) -> None:
        """Poke *channel*, now or with the next poke a few milliseconds later. Returns at once, from any thread."""
        if _running_loop() is self._loop:
            self._want(channel, job_type)
            return
        try:
            self._loop.call_soon_threadsafe(self._want, channel, job_type)
        except RuntimeError:  # the loop has ended: the poll finds the job
            return

    def carry(self, channel: str) -> bool:
        """Whether a single enqueue may carry the poke in its own statement: only the first after a rest may.

        It saves the leading poke a round trip. Those that follow are gathered
        as ever, so NOTIFY's lock at commit is taken once in a few milliseconds.
        """
        if channel in self._resting:
            return False
        self._begin(channel, self._rest_then_send(channel))
        return True

    async def flush(self) -> None:
        """Send what waits, unless the server does not answer; called at exit."""
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                while self._tasks:
                    await asyncio.gather(*self._tasks, return_exceptions=True)
        except TimeoutError:
            for task in self._tasks:
                task.cancel()

    def _want(self, channel: str, job_type: str) -> None:
        known = self._wanted.get(channel)
        self._wanted[channel] = job_type if known is None or known == job_type else ""
        if channel not in self._resting:
            self._begin(channel, self._send(channel))

    def _begin(self, channel: str, sending: Coroutine[Any, Any, None]) -> None:
        self._resting.add(channel)
        task = self._loop.create_task(sending)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _rest_then_send(self, channel: str) -> None:
        try:
            await asyncio.sleep(self._seconds)
        except BaseException:
            self._resting.discard(channel)
            raise
        await self._send(channel)

    async def _send(self, channel: str) -> None:
        """Leading edge first, then one for all that came in the meantime."""
        try:
            while (job_type := self._wanted.pop(channel, None)) is not None:
                await self._notify(channel, job_type)
                await asyncio.sleep(self._seconds)
        except connect.AWAY as error:
            events.database_away("poke", type(error).__name__, 0.0)  # a lost poke costs one poll interval
        finally:
            self._resting.discard(channel)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
