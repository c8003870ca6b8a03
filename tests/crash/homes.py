"""`python -m tests.crash.homes --requests 5000 --homes 50 --kills 300`: many homes, and workers that die all the time.

It goes in rounds. A round starts two submitters and two collectors at once,
each under the login of a worker; each dies at a named point, anywhere, or not
at all. Between the rounds nobody is alive: more messages come, some jobs are
canceled, and time passes for the database and the provider alike. The provider
loses replies, expires batches, shuffles and doubles lines all along.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

import asyncpg

from penstock.apps.rewrite import Rewrites, homes, rewrite_app
from penstock.apps.rewrite.policy import COLLECTOR, SUBMITTER
from penstock.contract.crash import CrashPoint
from penstock.emulator import Emulator
from penstock.store import clock, types
from penstock.store.roles import OPERATOR, ORCHESTRATOR, WORKER
from tests.apps.rewrite.rewriter import complaint
from tests.crash import homes_history, lane
from tests.crash.campaign import ANYWHERE, Nursery
from tests.crash.homes_types import UNKINDLY, Knows, Model, settings_of
from tests.crash.lane_faults import SCRIPT
from tests.support import servers

if TYPE_CHECKING:
    from collections.abc import Callable

LANGUAGES: Final = ("en", "es", "de", "fr")
POINTS: Final = {
    SUBMITTER: (
        *lane.POINTS["submitter"],
        CrashPoint.AFTER_CLAIM,
        CrashPoint.MID_HANDLER,
        CrashPoint.AFTER_HANDLER,
        CrashPoint.BEFORE_RECORD,
        CrashPoint.BEFORE_TRANSACTION_COMMIT,
        CrashPoint.AFTER_TRANSACTION_COMMIT,
    ),
    COLLECTOR: lane.POINTS["collector"],
}
CREW: Final = (SUBMITTER, SUBMITTER, COLLECTOR, COLLECTOR)
PER_ROUND: Final = 100  # messages, at most
MORE: Final = 20  # when everything has ended and nobody can be killed at work
MOST_ROUNDS: Final = 200  # without a kill, after which everything must have ended
UNKIND: Final = 0.03  # of the messages get an answer that must be refused
CANCELED: Final = 0.02


@dataclass
class Verdict:
    """What a campaign came to."""

    seed: int
    requests: int = 0
    kills: int = 0
    rounds: int = 0
    at: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    lanes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


@dataclass
class Campaign:
    """One campaign under way."""

    orchestrator: Rewrites
    owner: asyncpg.Connection[Any]
    operator: asyncpg.Connection[Any]
    nursery: Nursery
    emulator: Emulator
    order: dict[str, Any]
    random: Random
    verdict: Verdict
    homes: list[tuple[UUID, dict[str, UUID]]] = field(default_factory=list)  # and a member for each language
    sent: dict[UUID, tuple[UUID, str]] = field(default_factory=dict)  # request → home, canary

    async def settle(self, count: int) -> None:
        """People move into *count* homes."""
        for _ in range(count):
            home_id, members = uuid4(), {language: uuid4() for language in LANGUAGES}
            async with self.orchestrator.in_home(home_id) as connection:
                await homes.put_home(connection, home_id)
                for language, user_id in members.items():
                    await homes.put_member(connection, home_id, user_id, language)
            self.homes.append((home_id, members))

    async def feed(self, count: int) -> None:
        """Messages from everywhere to everywhere; one in four is asked about at once."""
        for _ in range(count):
            home_id, members = self.random.choice(self.homes)
            spoken, read = self.random.choice(LANGUAGES), self.random.choice(LANGUAGES)
            sender = self.random.choice([user for user in members.values() if user != members[read]])
            canary = f"{self.random.getrandbits(48):012x}"
            unkind = UNKINDLY if self.random.random() < UNKIND else ""
            done = await self.orchestrator.submit_rewrite(
                home_id=home_id, sender_user_id=sender, recipient_user_ids=[members[read]],
                text=complaint(spoken, canary) + unkind, surface=self.random.choice(("other", *["direct_message"] * 3)),
                idempotency_key=canary,
            )  # fmt: skip
            assert done.accepted
            self.sent[done.rewrite_request_id] = home_id, canary
        self.verdict.requests = len(self.sent)

    async def more(self) -> int:
        """How many messages to add when all have been sent: those who have nothing to do pass no point to die at."""
        return 0 if await self.busy() else MORE

    async def cancel_some(self) -> None:
        """An operator cancels a few jobs, wherever they are."""
        rows = await self.operator.fetch("select job_id from penstock.jobs where finished_at is null order by job_id")
        for row in rows:
            if self.random.random() < CANCELED / 10:
                await self.operator.fetchval("select penstock.cancel($1, 'op', 'chaos')", row["job_id"])

    async def round(self, *, deadly: bool = True) -> None:
        """Everybody once; returns when all have ended."""
        ends = [asyncio.create_task(self._process(function, deadly=deadly)) for function in CREW]
        if deadly and self.random.random() < 0.2:
            await asyncio.sleep(self.random.uniform(0.02, 0.3))
            await self.pass_time(lane.LONG)
        await asyncio.gather(*ends)
        self.verdict.rounds += 1

    async def pass_time(self, seconds: float) -> None:
        """Wind both clocks; the provider's first, so that no batch of its is from our future."""
        await asyncio.to_thread(self.emulator.advance, seconds)
        await clock.wind(self.owner, timedelta(seconds=seconds))

    async def busy(self) -> bool:
        """Whether anything has not ended yet."""
        return bool(
            await self.owner.fetchval(
                "select exists (select from penstock.jobs where finished_at is null) or "
                "exists (select from penstock.batches where state not in ('collected', 'abandoned'))"
            )
        )

    async def _process(self, function: str, *, deadly: bool) -> None:
        order = {**self.order, "function": function}
        point, share = self._fate(function) if deadly else (None, None)
        if point is not None:
            order |= {"crash_at": str(point), "passages": self.random.choice((1, 1, 2, 5, 20))}
        status = await self.nursery.lived(order, share)
        if os.WIFSIGNALED(status):
            self.verdict.kills += 1
            self.verdict.at[str(point or ANYWHERE)] += 1
        elif status:
            self.verdict.problems.append(f"{function} ended with an error ({point})")

    def _fate(self, function: str) -> tuple[CrashPoint | None, float | None]:
        """Where this process dies, or after which share of its life."""
        if self.random.random() < 0.7:
            return self.random.choice(POINTS[function]), None
        return None, self.random.random()


async def run(
    dsn: str, role_dsn: Callable[[str], str], logs: list[Path], *, requests: int, count: int, kills: int, seed: int,
    progress: Callable[[Verdict], None] = lambda _: None,
) -> Verdict:  # fmt: skip
    """Take *requests* or more from *count* homes through *kills* deaths, let the rest be done in peace, and check."""
    verdict = Verdict(seed)
    async with AsyncExitStack() as stack:
        campaign = await _begin(stack, dsn, role_dsn, logs[0], verdict)
        await campaign.settle(count)
        while verdict.kills < kills or len(campaign.sent) < requests:
            await campaign.feed(min(PER_ROUND, requests - len(campaign.sent)) or await campaign.more())
            await campaign.round(deadly=verdict.kills < kills)
            await campaign.cancel_some()
            await campaign.pass_time(campaign.random.choice(lane.LEAPS))
            progress(verdict)
        await _finish(campaign, progress)
        found = await homes_history.violations(campaign.owner, campaign.orchestrator, campaign.sent, logs)
        verdict.problems += found
        await _count(campaign)
    return verdict


async def _begin(
    stack: AsyncExitStack, dsn: str, role_dsn: Callable[[str], str], log: Path, verdict: Verdict
) -> Campaign:
    nursery = await stack.enter_async_context(Nursery("tests.crash.homes_nursery"))  # it takes a while to be there
    emulator = Emulator(finish_after=lane.BATCH_SECONDS, seed=verdict.seed, answer=Model(verdict.problems))
    await stack.enter_async_context(emulator)
    for kind, probability, settings in SCRIPT:
        emulator.faults.add(kind, probability=probability, **settings)
    owner, operator = await asyncpg.connect(dsn), await asyncpg.connect(role_dsn(OPERATOR))
    stack.push_async_callback(owner.close)
    stack.push_async_callback(operator.close)
    settings = settings_of(emulator)
    orchestrator = rewrite_app(dsn=role_dsn(ORCHESTRATOR), classifier=Knows(), **settings)
    await stack.enter_async_context(orchestrator.app)
    await types.sync(owner, [job_type.policy for job_type in orchestrator.app.types])
    order = {"settings": {**settings, "dsn": role_dsn(WORKER)}, "log": str(log)}
    random = Random(verdict.seed)  # noqa: S311 - chaos that can be repeated
    return Campaign(orchestrator, owner, operator, nursery, emulator, order, random, verdict)


async def _finish(campaign: Campaign, progress: Callable[[Verdict], None]) -> None:
    """No more faults and no more kills: everything must come to its end."""
    await asyncio.to_thread(campaign.emulator.faults.clear)
    for _ in range(MOST_ROUNDS):
        await campaign.pass_time(lane.LONG)
        await campaign.round(deadly=False)
        progress(campaign.verdict)
        if not await campaign.busy():
            return
    campaign.verdict.problems.append("not everything has ended")


async def _count(campaign: Campaign) -> None:
    ends = await campaign.owner.fetch("select status, count(*) from rewrite.rewrite_requests group by 1")
    lanes = await campaign.owner.fetch("select lane, count(*) from rewrite.rewrite_requests group by 1")
    campaign.verdict.ends = Counter({row[0]: row[1] for row in ends})
    campaign.verdict.lanes = Counter({row[0]: row[1] for row in lanes})


def main() -> int:
    """Run it at length; 0 when everything holds, 1 when it does not."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.homes", description=__doc__)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--homes", type=int, default=50)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    _print(f"{options.requests} requests, {options.homes} homes, {options.kills} kills, seed {seed}")
    started = time.monotonic()
    with servers.campaign_server() as server, tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / "workers.log", server.embedded.home.log]
        verdict = asyncio.run(
            run(server.dsn, server.role_dsn, logs, requests=options.requests, count=options.homes,
                kills=options.kills, seed=seed, progress=_say)
        )  # fmt: skip
    _tell(verdict, time.monotonic() - started)
    return 1 if verdict.problems else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _say(verdict: Verdict) -> None:
    if verdict.rounds % 10 == 0:
        _print(f"  {verdict.rounds} rounds, {verdict.kills} kills, {verdict.requests} requests")


def _tell(verdict: Verdict, seconds: float) -> None:
    lanes, ends = (", ".join(f"{n} {what}" for what, n in sorted(c.items())) for c in (verdict.lanes, verdict.ends))
    _print(f"{verdict.kills} killed in {verdict.rounds} rounds, {seconds:.0f} s")
    _print(f"{verdict.requests} requests ({lanes}): {ends}")
    for point, count in sorted(verdict.at.items()):
        _print(f"  {count:5d} at {point}")
    for problem in verdict.problems[:50]:
        _print(f"  BROKEN: {problem}")
    if not verdict.problems:
        _print("0 cross-home reads or writes, 0 outputs for failed jobs, 0 second outputs, 0 canary hits: it holds")


if __name__ == "__main__":
    sys.exit(main())
