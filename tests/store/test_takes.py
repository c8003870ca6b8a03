"""Taking jobs: the statement for one type and the one for several keep the same rules."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest

from penstock import Penstock
from penstock.engine.marks import Marks
from penstock.store import claims as store
from penstock.store import types as type_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from penstock.contract.claims import Claim

LEASE = timedelta(minutes=5)


@dataclass
class Hatch:
    """Where jobs are handed out: of `echo` alone, or of another type besides."""

    app: Penstock
    db: asyncpg.Connection[Any]
    types: tuple[str, ...]

    async def take(self, limit: int = 10, marks: Marks | None = None) -> list[Claim]:
        at = (marks or Marks()).of(self.types, 0.0)
        leases = [LEASE] * len(self.types)
        async with asyncio.timeout(10):
            return await store.take(self.db, self.types, leases, at, limit=limit, worker="w", run=uuid4())

    async def ids(self, limit: int = 10) -> list[UUID]:
        return [claim.job_id for claim in await self.take(limit)]


@pytest.fixture(params=[("echo",), ("echo", "other")], ids=["one", "several"])
async def hatch(dsn: str, request: pytest.FixtureRequest) -> AsyncIterator[Hatch]:
    async with Penstock(dsn, notify="off") as app:
        for name in ("echo", "other"):
            app.job(name)(_nothing)
        await app.sync_types()
        db = await asyncpg.connect(dsn)
        yield Hatch(app, db, request.param)
        await db.close()


async def _nothing(_job: Any, _args: Any) -> None:
    """Never run here."""


@pytest.mark.contract("D-47", "D-51")
async def test_a_job_that_somebody_has_locked_is_left_to_him(hatch: Hatch, dsn: str) -> None:
    first, second = [await hatch.app.enqueue("echo", {"n": n}) for n in range(2)]
    other = await asyncpg.connect(dsn)
    async with other.transaction():
        await other.execute("select from penstock.jobs where job_id = $1 for update", first)
        assert await hatch.ids() == [second]
    await other.close()
    assert await hatch.ids() == [first]


@pytest.mark.contract("C-59")
async def test_a_job_that_is_not_due_stays(hatch: Hatch) -> None:
    await hatch.app.enqueue("echo", {}, delay=3600)
    due = await hatch.app.enqueue("echo", {})
    assert await hatch.ids() == [due]


async def test_a_type_behind_a_gate_is_left_to_its_gate(hatch: Hatch) -> None:
    await hatch.app.enqueue("echo", {})
    await type_store.pause(hatch.db, "echo", who="test", why=None)
    assert await hatch.ids() == []


@pytest.mark.contract("C-31")
async def test_every_claim_has_a_higher_fence_a_lease_and_a_name(hatch: Hatch) -> None:
    job_id = await hatch.app.enqueue("echo", {})
    for fence in (1, 2):
        [claim] = await hatch.take()
        assert claim.claim_seq == fence
        row = await hatch.db.fetchrow(
            "select status, claimed_by, claim_seq, lease_expires_at - claimed_at, updated_at = claimed_at"
            "  from penstock.jobs where job_id = $1",
            job_id,
        )
        assert tuple(row or ()) == ("processing", "w", fence, LEASE, True)
        await store.requeue(hatch.db, "w", [store.Requeue(claim, timedelta(0), charged=False, code=None)])


@pytest.mark.contract("C-59")
async def test_the_urgent_ones_come_first_and_no_more_than_asked_for(hatch: Hatch) -> None:
    waiting = [await hatch.app.enqueue("echo", {}, priority=priority) for priority in (5, 1, 3)]
    assert await hatch.ids(limit=2) == [waiting[1], waiting[2]]
    assert await hatch.ids() == [waiting[0]]


async def test_a_mark_says_where_to_begin(hatch: Hatch) -> None:
    first, second, third = [await hatch.app.enqueue("echo", {"n": n}) for n in range(3)]
    claims = await hatch.take(2)
    assert [claim.job_id for claim in claims] == [first, second]
    await store.requeue(hatch.db, "w", [store.Requeue(claims[0], timedelta(0), charged=False, code=None)])
    marks = Marks()
    marks.advance(claims)
    assert [claim.job_id for claim in await hatch.take(10, marks)] == [third]
    assert await hatch.ids() == [first]


async def test_a_set_comes_in_its_order_however_the_rows_lie_in_the_table(hatch: Hatch) -> None:
    jobs = [await hatch.app.enqueue("echo") for _ in range(4)]
    for job_id in reversed(jobs):  # each is written anew behind the others
        await hatch.db.execute("update penstock.jobs set updated_at = penstock.now() where job_id = $1", job_id)
    await hatch.db.execute("set enable_indexscan = off; set enable_bitmapscan = off")

    assert await hatch.ids() == jobs
