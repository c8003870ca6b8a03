"""A press: a scheduled type with the contract's own policy, a provider that does as it is told, and its runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Job, JobType, Penstock, Policy
from penstock.contract.claims import Trigger
from penstock.contract.contract_types import complaint_rewrite
from penstock.engine.bounded import TimedRun
from penstock.engine.dispatcher import Dispatched
from penstock.store import clock
from tests.engine.owners import owner_of

FUNCTION = "rewrite_batch_submitter"
TYPE = "complaint_rewrite"


@dataclass
class Provider:
    """Answers every call at once, unless the test has other plans for it."""

    calls: list[tuple[UUID, int]] = field(default_factory=list)
    started: list[datetime] = field(default_factory=list)
    answer: Callable[[Job, dict[str, Any]], Any] = lambda _job, _args: None

    async def call(self, job: Job, args: dict[str, Any]) -> None:
        job.count_call(args.get("provider", "openai"), args.get("model", "small"))
        self.calls.append((job.run_id, args["n"]))
        answer = self.answer(job, args)
        if asyncio.iscoroutine(answer):
            await answer

    def numbers(self) -> list[int]:
        """The `n` of each job called for, in order."""
        return [n for _, n in self.calls]


@dataclass
class Press:
    """An application with one scheduled type and a function that runs it."""

    app: Penstock
    dsn: str
    owner: asyncpg.Connection[Any]
    provider: Provider

    async def fill(self, count: int, first: int = 0, **options: Any) -> list[UUID]:
        """Enqueue *count* jobs, numbered from *first*."""
        return [await self.app.enqueue(TYPE, {"n": first + n}, **options) for n in range(count)]

    async def run(self, trigger: Trigger = Trigger.SCHEDULE, **options: Any) -> Dispatched:
        """One call of the function."""
        return await self.app.run_function(FUNCTION, trigger=trigger, **{"insecure": True, **options})

    async def ran(self, trigger: Trigger = Trigger.SCHEDULE, **options: Any) -> TimedRun:
        """One call that must come to a run."""
        dispatched = await self.run(trigger, **options)
        assert dispatched.run is not None
        return dispatched.run

    async def records(self) -> list[asyncpg.Record]:
        """Every run record, oldest first."""
        return await self.owner.fetch("select * from penstock.runs order by started_at, run_id")

    async def job(self, job_id: UUID) -> asyncpg.Record:
        """The row of a job."""
        row: asyncpg.Record | None = await self.owner.fetchrow("select * from penstock.jobs where job_id = $1", job_id)
        assert row is not None
        return row

    async def rows(self, status: str) -> list[asyncpg.Record]:
        """All jobs of one status, in the order of their enqueue."""
        return await self.owner.fetch(
            "select * from penstock.jobs where status = $1 order by created_at, job_id", status
        )

    async def statuses(self) -> dict[str, int]:
        """How many jobs there are of each status."""
        rows = await self.owner.fetch("select status, count(*) from penstock.jobs group by status")
        return {row["status"]: row["count"] for row in rows}

    async def pass_time(self, **span: float) -> None:
        """Wind the clock of the database forward."""
        await clock.wind(self.owner, timedelta(**span))

    async def now(self) -> datetime:
        """The clock of the database."""
        return await clock.now(self.owner)


Build = Callable[..., Any]


@pytest.fixture
async def build(dsn: str) -> AsyncIterator[Build]:
    """Make a press: `build(profile="dev")`, or with another policy."""
    opened: list[Press] = []

    async def make(policy: Policy | None = None, **settings: Any) -> Press:
        app = Penstock(dsn, grace_seconds=5, **settings)
        provider = Provider()
        job_type = app.types.add(JobType(policy or complaint_rewrite(app.settings.active_profile())))
        job_type.stage(job_type.policy.stages[0], args=dict)(provider.call)
        app.job_function(FUNCTION, job_type, every=timedelta(minutes=15))
        await app.open()
        await app.sync_types()
        press = Press(app, dsn, owner_of(app), provider)
        opened.append(press)
        return press

    yield make
    for press in opened:
        await press.app.close()


@pytest.fixture
async def press(build: Build) -> Press:
    """A press with the base profile."""
    made: Press = await build()
    return made
