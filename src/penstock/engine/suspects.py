"""Suspects: jobs whose process ended while it held them. Each runs alone in a process, until it is known (C-13).

Which of its jobs has ended a process nobody can say afterwards, so all of them
were charged and all of them are suspects. A job that ends its process again
while it runs alone pays for itself, and for nobody beside it.

A worker sets one suspect aside first, so that no second worker stops for it.
Then it lets go of what it holds: handlers end, claims that have not started go
back. Only then is the suspect claimed. Were it claimed first, it would have to
pay for a second culprit among those that still run.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.store import claims as store
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.contract.claims import Claim
    from penstock.engine.fetcher import Fetcher
    from penstock.engine.registry import JobType
    from penstock.engine.runs import Run
    from penstock.engine.slots import Slots
    from penstock.engine.workplace import Workplace
    from penstock.store.claims import Reservation

RESERVED: Final = timedelta(seconds=30)  # a worker that has set a suspect aside and says no more has ended
KEPT_EVERY: Final = 10.0  # seconds between words of one that lives
PATIENCE: Final = timedelta(seconds=1)  # a worker that is busy leaves a suspect for so long to those that are not
BACKLOG_SECONDS: Final = 0.25  # in which claims that wait for a slot may still start
OBSTRUCTED_SECONDS: Final = 5.0  # that ends of claims may wait for the locks of others, until the turn is given up
LOOK: Final = 0.1  # seconds after which a wait looks whether the worker is to stop


class Suspects:
    """Runs the suspects of one process, one by one."""

    def __init__(self, place: Workplace, slots: Slots, fetcher: Fetcher, types: dict[str, JobType]) -> None:
        self._place = place
        self._slots = slots
        self._fetcher = fetcher
        self._types = types
        self._ends = asyncio.Event()  # claims have ended
        self.due = True  # there may be some: look
        self.found = False  # there were some at the last look
        self.unload: Callable[[], Awaitable[None]] = _nothing  # lets go of claims that no slot runs

    def freed(self) -> None:
        """Ends of claims were written."""
        self._ends.set()

    async def turn(self, types: Sequence[str], begin: Callable[[str], Run]) -> int:
        """Run one suspect of *types* alone and wait for its end, in the run that *begin* makes for its type.

        Returns how many were run: 0 when there is none for this worker now.
        """
        async with self._fetcher.claiming:
            reserved = await self._reserve(types)
            self.due = self.found = reserved is not None
            if reserved is None:
                return 0
            reserved = await self._let_go(reserved)
            if reserved is None:
                return 0
            run = begin(reserved.job_type)
            claims = await self._take(reserved, run)
            self.due = bool(claims)
            if claims:
                self._fetcher.hand_over(claims, run)
                await self._emptied()
            return len(claims)

    async def _reserve(self, types: Sequence[str]) -> Reservation | None:
        held = list(self._place.held)
        waited = PATIENCE if held else timedelta(0)
        worker = self._place.worker_id
        return await store.reserve(self._place.pool, types, span=RESERVED, waited=waited, worker=worker, held=held)

    async def _let_go(self, reserved: Reservation) -> Reservation | None:
        """Wait until this process holds nothing; None when it must stop first, or the suspect is gone."""
        kept = begun = time.monotonic()
        emptied: float | None = None
        while self._place.held:
            if not self._slots.open:
                await self.unload()
            await self._look()
            now = time.monotonic()
            if now - begun > BACKLOG_SECONDS:
                self._slots.release_backlog(timedelta(0), None)
            emptied = None if self._slots.open else emptied or now
            if self._fetcher.stopping or (emptied is not None and now - emptied > OBSTRUCTED_SECONDS):
                await store.keep_reserved(self._place.pool, reserved, None)
                self.due = False
                return None
            if now - kept > KEPT_EVERY:
                again = await store.keep_reserved(self._place.pool, reserved, RESERVED)
                if again is None:
                    return None
                reserved, kept = again, now
        return reserved

    async def _take(self, reserved: Reservation, run: Run) -> list[Claim]:
        place = self._place
        lease = self._types[reserved.job_type].policy.lease
        claims = await store.take_suspect(place.pool, reserved, lease, worker=place.worker_id, run=run.run_id)
        for claim in claims:
            events.suspect_alone(claim, place.worker_id)
        if not claims:
            await store.keep_reserved(place.pool, reserved, None)
        return claims

    async def _emptied(self) -> None:
        while self._place.held and not self._fetcher.stopping:
            await self._look()
            if not self._slots.open:
                await self.unload()

    async def _look(self) -> None:
        """Wait until ends were written, but not for long: the worker may be told to stop."""
        self._ends.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK):
                await self._ends.wait()


async def _nothing() -> None:
    """Hold nothing but what the slots run."""
