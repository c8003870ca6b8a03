"""Pokes: sent after the commit, outside the producing transaction, and at most one per channel every few milliseconds.

NOTIFY inside a transaction takes a database-wide lock at commit, which caps
the rate of all commits. So the first poke goes out at once, and those that
follow within a few milliseconds go out together as one: with the next single
enqueue when one comes in time, else by itself.
"""

from __future__ import annotations

import asyncio
import math
from enum import Enum
from typing import TYPE_CHECKING, Final

from penstock.store import connect
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FLUSH_SECONDS: Final = 2.0  # how long an exit waits for the last pokes
AGAIN: Final = (0.05, 0.2, 1.0)  # seconds before another try of a poke that could not be sent
PATIENCE: Final = 1.4  # pauses that a poke waits before it goes by itself: the next enqueue of a stream saves it that


class Carried(Enum):
    """What an enqueue pokes for in its own statement."""

    NOTHING = 0
    ITS_OWN = 1
    OTHERS_TOO = 2  # jobs that were enqueued before it and have committed


class Pokes:
    """Coalesces pokes and hands them to *notify*; belongs to the event loop it is made in."""

    def __init__(self, notify: Callable[[str, str], Awaitable[None]], seconds: float) -> None:
        self._notify = notify
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._wanted: dict[str, str] = {}  # channel → a type; '' when several
        self._sent: dict[str, float] = {}  # when each resting channel was poked last
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def here(self) -> bool:
        """Whether the caller is in the event loop of these pokes."""
        return _running_loop() is self._loop

    def send(self, channel: str, job_type: str) -> None:
        """Poke *channel*, now or with the next poke a few milliseconds later. Returns at once, from any thread."""
        if self.here:
            self._want(channel, job_type)
            return
        try:
            self._loop.call_soon_threadsafe(self._want, channel, job_type)
        except RuntimeError:  # the loop has ended: the poll finds the job
            return

    def carry(self, channel: str, job_type: str) -> Carried:
        """Let a single enqueue carry the poke in its own statement, if one is due, for itself and for those before it.

        It saves the leading poke a round trip, and a steady stream every poke
        of its own. One that speaks for others and then pokes nobody must
        `send`. NOTIFY's lock is still taken once in a few milliseconds only.
        """
        now, last = self._loop.time(), self._sent.get(channel)
        if last is not None and now - last < self._seconds:
            return Carried.NOTHING
        if self._wanted.get(channel, job_type) != job_type:
            return Carried.NOTHING  # it would speak for its own type alone
        others = self._wanted.pop(channel, None)
        self._sent[channel] = now
        if last is None:
            self._begin(channel)
        return Carried.ITS_OWN if others is None else Carried.OTHERS_TOO

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
        if channel not in self._sent:
            self._sent[channel] = -math.inf  # the leading edge goes at once
            self._begin(channel)

    def _begin(self, channel: str) -> None:
        task = self._loop.create_task(self._send(channel))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, channel: str) -> None:
        """One poke for all that came since the last one, as soon as that is a few milliseconds old; then rest."""
        try:
            while True:
                rest = self._sent[channel] + self._seconds * PATIENCE - self._loop.time()
                if rest > 0:
                    await asyncio.sleep(rest)  # an enqueue may carry one meanwhile, and the rest begins anew
                    continue
                job_type = self._wanted.pop(channel, None)
                if job_type is None:
                    return
                self._sent[channel] = self._loop.time()
                await self._notify_for_sure(channel, job_type)
        finally:
            self._sent.pop(channel, None)

    async def _notify_for_sure(self, channel: str, job_type: str) -> None:
        """Try a few times: the job is in, and a poke that is lost with a connection costs it one poll interval."""
        for pause in (*AGAIN, None):
            try:
                await self._notify(channel, job_type)
            except connect.AWAY as error:
                events.database_away("poke", type(error).__name__, pause or 0.0)
                if pause is None:
                    return  # the worker's listener is away as well by now, and drains when it is back
                await asyncio.sleep(pause)
            else:
                return


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
