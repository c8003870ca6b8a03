"""A bounded run over jobs: claims up to its cap, starts nothing after its time, waits for what it started.

What it never claimed stays queued, untouched, for the next run. What it
claimed but could not start before its time was up goes back for a short
while, with no attempt used (C-26).
"""

from __future__ import annotations

import asyncio
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.contract.claims import Caps
from penstock.contract.policies import CONTROL_CHANNEL
from penstock.contract.verdicts import Requeued, Verdict
from penstock.engine.crew import Crew
from penstock.engine.executor import Executor
from penstock.engine.fetcher import Group
from penstock.engine.listener import Listener
from penstock.engine.running import Running, Stop
from penstock.engine.runs import Run
from penstock.store import claims as claim_store
from penstock.store import connect
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from penstock.contract.claims import Trigger
    from penstock.engine.registry import JobType
    from penstock.settings import Settings
    from penstock.store.connect import Pool
    from penstock.store.workers import Identity

PAUSE: Final = 1.0  # seconds before a run asks a database again that was away
ORPHAN_AGE: Final = timedelta(minutes=10)


class TimedRun(Run):
    """A run that looks at a clock of its own, so that its time is up everywhere at the same moment."""

    __slots__ = ("_clock", "again")

    def __init__(
        self, function: str, trigger: Trigger, caps: Caps, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(function, trigger, caps, clock())
        self._clock = clock
        self.again = False  # it left work that should not wait for the next tick

    def begin(self) -> None:
        """Its time runs from now on."""
        self.started_mono = self._clock()

    def room(self, now: float | None = None) -> int:  # noqa: ARG002 - its own clock decides
        """How many more jobs it may take."""
        return super().room(self._clock())

    @property
    def time_left(self) -> float:
        """Seconds in which it may still start something; 0 when its time is up (Q-52)."""
        return max(0.0, self.caps.runtime.total_seconds() - (self._clock() - self.started_mono))


class BoundedRun(Crew):
    """One run of the jobs of *types*. Open it, let it work, close it."""

    brief = True

    def __init__(
        self,
        dsn: str,
        types: Sequence[JobType],
        settings: Settings,
        run: TimedRun,
        *,
        overflow: timedelta,
        **options: Any,
    ) -> None:
        for job_type in types:
            job_type.require_handlers()
        super().__init__(dsn, types, settings, **options)
        self._run = run
        self._overflow = overflow
        self._group = Group(
            run.function, tuple(t.name for t in types), tuple(t.policy.lease for t in types), run.caps, run.caps
        )

    async def open(self) -> None:
        """Connect, take a name, hear of canceled jobs; nothing is claimed yet."""
        await self._open()
        self._listener = Listener(
            self._settings.listen_dsn or self._dsn, [CONTROL_CHANNEL], poked=self._on_control, restored=lambda: None
        )
        await self._listener.start()

    async def work(self) -> None:
        """Claim and run until a cap is reached or nothing is claimable, and wait for the last job."""
        timer = asyncio.get_running_loop().call_later(self._run.time_left, self._time_is_up)
        try:
            await self._take_all()
        finally:
            timer.cancel()
        if self.failure is not None:
            raise self.failure

    def stop(self, grace: float) -> None:
        """Take no more; handlers that still run after *grace* seconds are halted and their jobs given back."""
        self.fetcher.stop()
        self.slots.release_backlog(timedelta(0), "SHUTDOWN")
        asyncio.get_running_loop().call_later(grace, self.slots.halt_all, Stop.SHUTDOWN)

    async def close(self) -> None:
        """Record what is left and disconnect."""
        if hasattr(self, "_listener"):
            await self._finish_work(self._settings.grace_seconds)
            await self._listener.stop()
            await self._leave()
        else:
            await self._close_pool()

    async def _take_name(self, pool: Pool) -> Identity:
        """A name of its own: the worker's, if it has one, belongs to the worker."""
        return await self._take_free_name(pool, self._settings.worker_name or socket.gethostname())

    async def _take_all(self) -> None:
        """Rounds, until one of them finds nothing: a limit may free a job only when another one has ended."""
        await self._patiently(self._prepare)
        await self._take_suspects(self._run.caps.jobs // 2, self._run.caps.runtime.total_seconds() / 2)
        while self._run.room() > 0 and not self.fetcher.stopping:
            before = self._run.claimed
            await self._patiently(lambda: self.fetcher.fill(self._group, self._run))
            await self.settle()
            if self._run.claimed == before:
                break
        if self.place.parking is None:  # else the run still holds what it has parked
            await self._take_suspects(0, 0)

    async def _take_suspects(self, jobs: int, seconds: float) -> None:
        """Run suspects, each alone (C-13); of the run's room *jobs* and *seconds* are left to other jobs."""
        self.suspects.due = True
        while self.suspects.due and not self.fetcher.stopping:
            if self._run.room() <= jobs or self._run.time_left <= seconds:
                return
            await self._patiently(lambda: self.suspects.turn(self._group.types, lambda _: self._run))

    async def _prepare(self) -> None:
        await self.reopen_types()
        await self.fetcher.reap()
        await self.fetcher.promote(self._group.types)

    async def _patiently(self, ask: Callable[[], Any]) -> None:
        """Ask until the database has answered or the time is up; then what was claimed without a reply goes back."""
        while True:
            try:
                await ask()
            except connect.AWAY as error:
                events.database_away("run", type(error).__name__, PAUSE)
                if self._run.time_left <= 0:
                    raise
                await asyncio.sleep(PAUSE)
                await self._patiently(self._release_orphans)
            else:
                return

    async def _release_orphans(self) -> None:
        held = list(self.place.held)
        await claim_store.release_orphans(self.place.pool, self.worker_id, held, younger=ORPHAN_AGE)

    def _time_is_up(self) -> None:
        self.slots.release_backlog(self._overflow, None)

    def _make_executor(self) -> Executor:
        return _PunctualExecutor(self, self.concurrency)

    def _on_control(self, _channel: str, payload: str) -> None:
        """Hear of jobs that an operator cancels."""
        self._on_cancel(payload)


class _PunctualExecutor(Executor):
    """Starts no job after the time of its run is up."""

    def __init__(self, crew: BoundedRun, concurrency: int) -> None:
        super().__init__(crew.place, crew.deadlines, concurrency)
        self._run = crew._run  # noqa: SLF001 - a part of it
        self._overflow = crew._overflow  # noqa: SLF001 - the same

    async def execute(self, running: Running) -> tuple[Verdict, str]:
        if self._run.time_left <= 0:
            return Requeued(self._overflow), ""
        return await super().execute(running)
