"""The campaign of the batch lane: submitters and collectors die, replies get lost, the emulator remembers.

It goes in rounds. A round starts a few processes at once, each of which calls
its functions and dies at a named point, anywhere, or not at all. Between the
rounds nobody is alive: what the provider has is checked, more jobs come, and
time passes for the database and the provider alike, so that leases run out and
batches end. In some rounds time jumps while everybody works.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from penstock.contract.crash import CrashPoint
from penstock.store import clock
from tests.crash import lane_history
from tests.crash.campaign import ANYWHERE, Nursery
from tests.crash.lane_faults import let_fail
from tests.crash.lane_types import TABLE, TYPES, build_app
from tests.support.emulator import EmulatorProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock import Penstock

POINTS: Final = {
    "submitter": (
        CrashPoint.BEFORE_BATCH_INTENT,
        CrashPoint.AFTER_BATCH_INTENT,
        CrashPoint.AFTER_BATCH_UPLOAD,
        CrashPoint.AFTER_BATCH_CREATE,
        CrashPoint.AFTER_BATCH_MARK,
    ),
    "collector": (
        CrashPoint.AFTER_BATCH_POLL,
        CrashPoint.AFTER_BATCH_DOWNLOAD,
        CrashPoint.BEFORE_ITEM_COMMIT,
        CrashPoint.AFTER_ITEM_COMMIT,
        CrashPoint.AFTER_BATCH_COLLECTED,
    ),
}
CREW: Final = ("submitter", "submitter", "collector", "collector")
BATCH_SECONDS: Final = 300
LEAPS: Final = (20, 90, 400, 960)  # seconds that pass between two rounds
LONG: Final = 960
MOST_ROUNDS: Final = 60  # without a kill, after which everything must have ended


@dataclass
class Verdict:
    """What a campaign came to."""

    seed: int
    kills: int = 0
    jobs: int = 0
    rounds: int = 0
    at: Counter[str] = field(default_factory=Counter)
    batches: Counter[str] = field(default_factory=Counter)  # at the providers
    recovered: Counter[str] = field(default_factory=Counter)  # submissions in doubt: how they ended
    problems: list[str] = field(default_factory=list)


@dataclass
class Campaign:
    """One campaign under way."""

    dsn: str
    app: Penstock
    owner: asyncpg.Connection[Any]
    nursery: Nursery
    emulator: EmulatorProcess
    random: Random
    verdict: Verdict

    async def round(self, *, deadly: bool = True) -> None:
        """Everybody once; returns when all have ended."""
        crew = [self.random.choice(CREW) for _ in CREW] if deadly else CREW
        ends = [asyncio.create_task(self._process(role, deadly=deadly)) for role in crew]
        if deadly and self.random.random() < 0.2:
            await asyncio.sleep(self.random.uniform(0.02, 0.3))
            await self.pass_time(LONG)
        await asyncio.gather(*ends)
        self.verdict.rounds += 1
        self.verdict.problems += await lane_history.live_now(self.owner, await self.state())

    async def feed(self) -> None:
        """More jobs, of most types."""
        for job_type in self.random.sample(TYPES, 3):
            count = self.random.randint(1, 6)
            canaries = [f"canary-{self.random.getrandbits(64):016x}" for _ in range(count)]
            args = [{"canary": canary, "fatal": self.random.random() < 0.05} for canary in canaries]
            await self.app.enqueue_many(job_type, args)
            self.verdict.jobs += count

    async def pass_time(self, seconds: float) -> None:
        """Wind both clocks; the provider's first, so that no batch of its is from our future."""
        await asyncio.to_thread(self.emulator.advance, seconds)
        await clock.wind(self.owner, timedelta(seconds=seconds))

    async def state(self) -> Mapping[str, Any]:
        """What the providers have."""
        return await asyncio.to_thread(self.emulator.state)

    async def busy(self) -> bool:
        """Whether anything has not ended yet."""
        return bool(
            await self.owner.fetchval(
                "select exists (select from penstock.jobs where finished_at is null) or "
                "exists (select from penstock.batches where state not in ('collected', 'abandoned'))"
            )
        )

    async def _process(self, role: str, *, deadly: bool) -> None:
        order: dict[str, Any] = {"dsn": self.dsn, "emulator": self.emulator.url}
        order["functions"] = [f"{name}_batch_{role}" for name in self.random.sample(TYPES, len(TYPES))]
        point, share = self._fate(role) if deadly else (None, None)
        if point is not None:
            order |= {"crash_at": str(point), "passages": self.random.choice((1, 1, 1, 2, 4))}
        status = await self.nursery.lived(order, share)
        if os.WIFSIGNALED(status):
            self.verdict.kills += 1
            self.verdict.at[str(point or ANYWHERE)] += 1
        elif status:
            self.verdict.problems.append(f"a {role} ended with an error ({order})")

    def _fate(self, role: str) -> tuple[CrashPoint | None, float | None]:
        """Where this process dies, or after which share of its life."""
        if self.random.random() < 0.8:
            return self.random.choice(POINTS[role]), None
        return None, self.random.random()


async def run(dsn: str, *, kills: int, seed: int, progress: Callable[[Verdict], None] = lambda _: None) -> Verdict:
    """Kill *kills* processes of the lane, let the rest be done in peace, and check."""
    verdict = Verdict(seed)
    async with AsyncExitStack() as stack:
        campaign = await _begin(stack, dsn, verdict)
        while verdict.kills < kills:
            await campaign.feed()
            await campaign.round()
            await campaign.pass_time(campaign.random.choice(LEAPS))
            progress(verdict)
        await _finish(campaign)
        state = await campaign.state()
        verdict.problems += await lane_history.violations(campaign.owner, state, verdict.jobs)
        await _count(campaign, state)
    return verdict


async def _begin(stack: AsyncExitStack, dsn: str, verdict: Verdict) -> Campaign:
    nursery = await stack.enter_async_context(Nursery("tests.crash.lane_nursery"))  # it takes seconds to be there
    options = ("--finish-after", str(BATCH_SECONDS), "--seed", str(verdict.seed))
    emulator = stack.enter_context(await asyncio.to_thread(EmulatorProcess, *options, cold=False))
    owner = await asyncpg.connect(dsn)
    stack.push_async_callback(owner.close)
    await owner.execute(TABLE)
    app = await stack.enter_async_context(build_app(dsn, emulator))
    await app.sync_types()
    await asyncio.to_thread(let_fail, emulator)
    random = Random(verdict.seed)  # noqa: S311 - chaos that can be repeated
    return Campaign(dsn, app, owner, nursery, emulator, random, verdict)


async def _finish(campaign: Campaign) -> None:
    """No more faults and no more kills: everything must come to its end."""
    await asyncio.to_thread(campaign.emulator.clear_faults)
    for _ in range(MOST_ROUNDS):
        await campaign.pass_time(LONG)
        await campaign.round(deadly=False)
        if not await campaign.busy():
            return


async def _count(campaign: Campaign, state: Mapping[str, Any]) -> None:
    verdict = campaign.verdict
    verdict.problems += [f"a bug of the emulator: {problem}" for problem in state["problems"]]
    created = await campaign.owner.fetch(  # not from the provider: a collected batch may be deleted there
        "select provider, count(*) from penstock.batches where provider_batch_id is not null group by provider"
    )
    verdict.batches = Counter({row["provider"]: row["count"] for row in created})
    rows = await campaign.owner.fetch(
        "select outcome, count(distinct e.token) from penstock.effect_attempts a join penstock.effects e "
        "using (effect_key) where a.action = 'settle' group by outcome"
    )
    verdict.recovered = Counter({row["outcome"]: row["count"] for row in rows})
