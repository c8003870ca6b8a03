"""Pokes: sent after the commit, outside the producing transaction, and at most one per channel every few milliseconds.

NOTIFY inside a transaction takes a database-wide lock at commit, which caps
the rate of all commits. So the first poke goes out at once, and those that
follow within a few milliseconds go out together as one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.store import connect, jobs
from penstock.telemetry import events

if TYPE_CHECKING:
    from penstock.store.connect import Pool


class Pokes:
    """Sends coalesced pokes over a pool."""

    def __init__(self, pool: Pool, seconds: float) -> None:
        self._pool = pool
        self._seconds = seconds
        self._wanted: dict[str, str] = {}  # channel → a type; '' when several
        self._resting: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, channel: str, job_type: str) -> None:
        """Poke *channel*, now or with the next poke of a few milliseconds later."""
        known = self._wanted.get(channel)
        self._wanted[channel] = job_type if known is None or known == job_type else ""
        if channel not in self._resting:
            self._resting.add(channel)
            task = asyncio.get_running_loop().create_task(self._send(channel))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def flush(self) -> None:
        """Send what waits; called at exit."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _send(self, channel: str) -> None:
        """Leading edge first, then one for all that came in the meantime."""
        try:
            while (job_type := self._wanted.pop(channel, None)) is not None:
                await jobs.poke(self._pool, channel, job_type)
                await asyncio.sleep(self._seconds)
        except connect.AWAY as error:
            events.database_away("poke", type(error).__name__, 0.0)  # a lost poke costs one poll interval
        finally:
            self._resting.discard(channel)
