"""Cancels: a message says which job to look at, the job's row says whether it is so.

Any login may send a message, so none is believed. A worker reads the rows of
the jobs that messages name, as far as it holds them, and stops those handlers
whose claim no longer owns its job. A message that never comes costs time only:
the next renewal of the lease finds out as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.engine.paced import Paced
from penstock.engine.running import Stop
from penstock.store import claims as store
from penstock.store import connect
from penstock.telemetry import events

if TYPE_CHECKING:
    import asyncio
    from uuid import UUID

    from penstock.engine.parts import Parts
    from penstock.engine.slots import Slots
    from penstock.engine.workplace import Workplace

PAUSE: Final = 0.2  # seconds between two looks, however many messages come


class Cancels:
    """Looks at the jobs that messages name, one read for all of them."""

    def __init__(self, place: Workplace, slots: Slots, parts: Parts) -> None:
        self._place = place
        self._slots = slots
        self._parts = parts
        self._named: set[UUID] = set()
        self._task: asyncio.Task[None] | None = None
        self._paced = Paced(self._begin, PAUSE)

    def hear(self, job_id: UUID) -> None:
        """A message names *job_id*; one that is not held here is nothing to look at."""
        if job_id in self._place.held:
            self._named.add(job_id)
            if self._task is None or self._task.done():
                self._paced.ask()

    async def close(self) -> None:
        """Look no more."""
        self._paced.close()
        await self._parts.end(self._task)

    def _begin(self) -> None:
        self._task = self._parts.start(self._look(), "cancels")

    async def _look(self) -> None:
        named, self._named = self._named, set()
        held = [running for job_id in named if (running := self._place.held.get(job_id)) is not None]
        try:
            claims = [running.claim for running in held]
            gone = set(await store.gone(self._place.pool, self._place.worker_id, claims))
        except connect.AWAY as error:
            events.database_away("cancels", type(error).__name__, 0.0)  # the next renewal sees it too
        else:
            self._slots.lose([running for running in held if running.claim in gone], Stop.CANCELED)
        if self._named:
            self._task = None
            self._paced.ask()
