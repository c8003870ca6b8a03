"""A lane: one type whose jobs ask the fake provider, its two functions, and a look at what they have done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest

from penstock import Audit, Job, Penstock
from penstock.contract.calls import Answer, Request, Route
from penstock.contract.claims import Trigger
from penstock.embedded import EmbeddedServer
from penstock.engine.bounded import TimedRun
from penstock.engine.dispatcher import Dispatched
from penstock.providers.port import BatchLimits
from penstock.store import clock
from tests.engine.owners import owner_of
from tests.engine.templates import template_with
from tests.support.fake_provider import LIMITS, FakeAdapter, FakeProvider

TYPE = "letters"
SUBMITTER = "letters_batch_submitter"
COLLECTOR = "letters_batch_collector"
PARTS = (
    "provider", "model", "adapter", "base_url", "execution", "prompt_version", "policy_version", "lane",
    "source_locale", "target_locale",
)  # fmt: skip


def build(_job: Job, args: dict[str, Any]) -> Request:
    """One question: the route as the arguments name it, and this job's own text."""
    route: dict[str, Any] = {"provider": "acme", "model": "small", "adapter": "fake"}
    route |= {part: args[part] for part in PARTS if part in args}
    return Request(Route(**route), "Rewrite politely.", args.get("text", f"letter {args.get('n', 0)}"))


def accept(_job: Job, _args: dict[str, Any], answer: Answer) -> str:
    """Every answer will do."""
    return answer.text


@dataclass
class Lane:
    """An application with one lane."""

    app: Penstock
    dsn: str
    owner: asyncpg.Connection[Any]
    provider: FakeProvider

    async def fill(self, count: int, first: int = 0, **args: Any) -> list[UUID]:
        """Enqueue *count* jobs, numbered from *first*."""
        return [await self.app.enqueue(TYPE, {"n": first + n, **args}) for n in range(count)]

    async def submit(self, **options: Any) -> Dispatched:
        """One call of the submitter, as a schedule makes it."""
        return await self.app.run_function(SUBMITTER, trigger=Trigger.SCHEDULE, **{"insecure": True, **options})

    async def submitted(self, **options: Any) -> TimedRun:
        """One call that must come to a run without an error."""
        dispatched = await self.submit(**options)
        assert dispatched.run is not None
        assert dispatched.error is None
        return dispatched.run

    async def batches(self) -> list[asyncpg.Record]:
        """Every batch, oldest first."""
        return await self.owner.fetch("select * from penstock.batches order by created_at, batch_id")

    async def batch(self) -> asyncpg.Record:
        """The only batch."""
        (row,) = await self.batches()
        return row

    async def items(self) -> list[asyncpg.Record]:
        """Every item, batch by batch."""
        return await self.owner.fetch("select * from penstock.batch_items order by batch_id, batch_item_index")

    async def effects(self) -> list[asyncpg.Record]:
        """Every effect."""
        return await self.owner.fetch("select * from penstock.effects order by intended_at, effect_key")

    async def job(self, job_id: UUID) -> asyncpg.Record:
        """The row of a job."""
        row: asyncpg.Record | None = await self.owner.fetchrow("select * from penstock.jobs where job_id = $1", job_id)
        assert row is not None
        return row

    async def jobs(self) -> list[asyncpg.Record]:
        """All jobs, in the order of their enqueue."""
        return await self.owner.fetch("select * from penstock.jobs order by created_at, job_id")

    async def statuses(self) -> dict[str, int]:
        """How many jobs there are of each status."""
        rows = await self.owner.fetch("select status, count(*) from penstock.jobs group by status")
        return {row["status"]: row["count"] for row in rows}

    async def alerts(self, kind: str) -> list[asyncpg.Record]:
        """The alerts of one kind."""
        return await self.owner.fetch("select * from penstock.alerts where kind = $1 order by alert_id", kind)

    async def type(self) -> asyncpg.Record:
        """The row of the type, with its gates."""
        row: asyncpg.Record | None = await self.owner.fetchrow("select * from penstock.types where job_type = $1", TYPE)
        assert row is not None
        return row

    async def pass_time(self, **span: float) -> None:
        """Wind the clock of the database forward."""
        await clock.wind(self.owner, timedelta(**span))

    async def now(self) -> datetime:
        """The clock of the database."""
        return await clock.now(self.owner)


MakeLane = Callable[..., Any]


@pytest.fixture(scope="session")
def template(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> str:
    """The engine, and a table `outputs` of the application that `persist` writes to."""
    return template_with("outputs (job_id uuid, text text not null)", shared_server, admin)


@pytest.fixture
async def make_lane(dsn: str) -> AsyncIterator[MakeLane]:
    """Make a lane: `make_lane(limits=..., attempts=2)`; the other keywords are the type's policy."""
    opened: list[Lane] = []

    async def make(
        *, limits: BatchLimits = LIMITS, provider: FakeProvider | None = None, lane: dict[str, Any] | None = None,
        **policy: Any,
    ) -> Lane:  # fmt: skip
        app = Penstock(dsn, grace_seconds=5)
        side = provider or FakeProvider()
        app.use_adapters({"fake": lambda url: FakeAdapter(side, limits=limits, base_url=url)})
        app.lane(TYPE, **{"build": build, "accept": accept, "audit": Audit.FULL, **(lane or {}), **policy})
        await app.open()
        await app.sync_types()
        made = Lane(app, dsn, owner_of(app), side)
        opened.append(made)
        return made

    yield make
    for lane in opened:
        await lane.app.close()


@pytest.fixture
async def lane(make_lane: MakeLane) -> Lane:
    """A lane with the base profile and roomy limits."""
    made: Lane = await make_lane()
    return made
