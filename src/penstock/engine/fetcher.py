"""The fetcher: one per process. Claims in sets, keeps the slots fed, and does it in bounded runs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.contract.claims import Caps, Claim, Trigger
from penstock.contract.crash import CrashPoint, passing
from penstock.engine.marks import Marks
from penstock.engine.reaper import reap
from penstock.engine.runs import Run
from penstock.store import claims as store
from penstock.store import connect
from penstock.store import types as type_store
from penstock.telemetry import events, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from penstock.engine.recorder import Recorder
    from penstock.engine.registry import JobType
    from penstock.engine.slots import Slots
    from penstock.engine.workplace import Workplace
    from penstock.store.kept import Kept

RECORD_SECONDS: Final = 60.0  # in which drains share a record (C-55)


@dataclass(frozen=True, slots=True)
class Group:
    """Types that share the bounds of a run."""

    function: str
    types: tuple[str, ...]
    leases: tuple[timedelta, ...]
    drain: Caps
    startup: Caps


def group_types(types: Sequence[JobType]) -> list[Group]:
    """One group per pair of bounds, so that a type with a small cap does not slow down the others."""
    groups: dict[tuple[int, int, timedelta], list[JobType]] = {}
    for job_type in types:
        policy = job_type.policy
        groups.setdefault((policy.drain_cap, policy.startup_cap, policy.max_runtime), []).append(job_type)
    return [
        Group(
            function="drain",
            types=tuple(t.name for t in members),
            leases=tuple(t.policy.lease for t in members),
            drain=Caps(drain, runtime),
            startup=Caps(startup, runtime),
        )
        for (drain, startup, runtime), members in groups.items()
    ]


class Fetcher:
    """Claims for the slots of one worker."""

    def __init__(self, place: Workplace, slots: Slots, recorder: Recorder, types: dict[str, JobType]) -> None:
        self._place = place
        self._slots = slots
        self._recorder = recorder
        self._types = types
        self._marks = Marks()
        self.claiming = asyncio.Lock()  # one drain claims at a time in one process (D-39)
        self._rotation = 0
        self._records: dict[tuple[Group, Caps], Run] = {}
        self.source: store.Db | Kept = place.pool  # where claims are taken; a worker keeps a connection for them
        self.stopping = False
        self.gives_way: Callable[[], bool] = lambda: False  # whether something else is to be done before the next claim

    async def drain(self, group: Group, trigger: Trigger, caps: Caps | None = None, bounds: Caps | None = None) -> Run:
        """One bounded run: claim until its caps are reached or nothing is claimable.

        Returns when it claims no more; its last jobs may still be running.
        """
        async with self.claiming:
            run = self.begin(group, trigger, caps or group.drain, bounds)
            try:
                await self._feed(group, run)
            finally:
                run.claiming = False
                if run.over:
                    self._recorder.run_over(run)
        return run

    def begin(self, group: Group, trigger: Trigger, caps: Caps, bounds: Caps | None = None) -> Run:
        """A drain of *group* within *caps*, or the tighter *bounds*.

        Its record is that of the drains of the last minute, as long as all of
        them together keep to *caps* (C-55). One that an admin asks for has a
        record of its own.
        """
        now = time.monotonic()
        bounds = bounds or caps
        if trigger is Trigger.ADMIN:
            return Run(group.function, trigger, bounds, now)
        record = self._records.get((group, caps))
        if record is None or now - record.started_mono >= RECORD_SECONDS or record.granted >= caps.jobs:
            record = self._records[group, caps] = Run(group.function, trigger, caps, now)
        if record.granted + bounds.jobs > caps.jobs:
            bounds = Caps(caps.jobs - record.granted, bounds.runtime)
        return Run(group.function, trigger, bounds, now, record)

    async def fill(self, group: Group, run: Run) -> None:
        """Claim for *run*, like a drain; whoever began the run also ends it."""
        async with self.claiming:
            await self._feed(group, run)

    async def _feed(self, group: Group, run: Run) -> None:
        while True:
            await self._slots.wait_for_room(self._given_up)
            limit = min(self._slots.room(), run.room(time.monotonic()))
            if limit <= 0 or self._given_up():
                return
            claims = await self._claim(group, run, limit)
            if claims:
                self.hand_over(claims, run)
            if len(claims) < limit:
                return

    def _given_up(self) -> bool:
        return self.stopping or self.gives_way()

    def stop(self) -> None:
        """Claim no more; who waits for a free slot waits no longer."""
        self.stopping = True
        self._slots.nudge()

    async def _claim(self, group: Group, run: Run, limit: int) -> list[Claim]:
        passing(CrashPoint.BEFORE_CLAIM)
        while self._recorder.alarmed and not self.stopping:
            await self._recorder.flush()
            await asyncio.sleep(0.001)
        if self._recorder.requeued:
            self._recorder.requeued = False
            self._marks.drop()
        gated = [job_type for job_type in group.types if job_type in self._place.gated]
        if not gated:
            claims = await self._claim_open(group, run, limit)
        else:
            claims = await self._claim_both(group, gated, run, limit)
        if claims:
            passing(CrashPoint.AFTER_CLAIM)
        return claims

    async def _claim_both(self, group: Group, gated: list[str], run: Run, limit: int) -> list[Claim]:
        """Open types and gated ones take turns to go first, so that no backlog of the others starves either."""
        turn = self._rotation % len(gated)
        gated = gated[turn:] + gated[:turn]
        if self._rotation % 2:
            claims = await self._claim_gated(gated, run, limit)
            return claims + (await self._claim_open(group, run, limit - len(claims)) if len(claims) < limit else [])
        claims = await self._claim_open(group, run, limit)
        return claims + await self._claim_gated(gated, run, limit - len(claims))

    async def _claim_gated(self, gated: list[str], run: Run, limit: int) -> list[Claim]:
        claims: list[Claim] = []
        for job_type in gated:
            if len(claims) >= limit:
                break
            claims += await store.take_gated(
                self.source,
                job_type,
                self._types[job_type].policy.lease,
                limit=limit - len(claims),
                worker=self._place.worker_id,
                run=run.run_id,
            )
        return claims

    async def _claim_open(self, group: Group, run: Run, limit: int) -> list[Claim]:
        # Another type is probed first each time, so that none starves behind a long backlog of its neighbour.
        count = len(group.types)
        self._rotation = (self._rotation + 1) % count
        types = group.types[self._rotation :] + group.types[: self._rotation]
        leases = group.leases[self._rotation :] + group.leases[: self._rotation]
        marks = self._marks.of(types, time.monotonic())
        claims = await store.take(
            self.source, types, leases, marks, limit=limit, worker=self._place.worker_id, run=run.run_id
        )
        if len(claims) < limit:
            self._marks.drop()
        else:
            self._marks.advance(claims)
        return claims

    def hand_over(self, claims: list[Claim], run: Run) -> None:
        """Let the slots run *claims* of *run*."""
        run.claimed += len(claims)
        if run.part_of is not None:
            run.part_of.granted += len(claims)
        self._slots.add(claims, run)
        asyncio.get_running_loop().call_soon(self._count, claims)  # behind the first of them, which has begun by then

    def _count(self, claims: list[Claim]) -> None:
        for job_type, count in Counter(claim.job_type for claim in claims).items():
            metrics.claimed(job_type, self._place.worker_id, count)

    async def promote(self, types: Sequence[str]) -> int:
        """Make ready what has fallen due, all of it."""
        total = 0
        while (count := await store.promote(self._place.pool, types)) > 0:
            total += count
            if count < store.PROMOTE_AT_ONCE:
                break
        if total:
            self._marks.drop()
        return total

    async def reap(self) -> int:
        """Return expired claims, all of them."""
        try:
            total = await reap(self._place.pool)
        except connect.OBSTRUCTED as error:
            events.database_away("reaper", type(error).__name__, 0)  # claims do not wait for it: there is a next time
            return 0
        if total:
            self._marks.drop()
        return total

    async def look_at_gates(self) -> None:
        """Learn which types are gated; of those that are shut, give back what has not started."""
        gates = await type_store.gates(self._place.pool, list(self._types))
        self._place.gated = {gate.job_type for gate in gates if gate.gated}
        self._recorder.shaky.update(gate.job_type for gate in gates if gate.shaky)
        self._slots.release({gate.job_type for gate in gates if gate.shut})
