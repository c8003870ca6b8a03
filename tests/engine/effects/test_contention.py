"""Many at once: one key, few connections, cancelled handlers."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Penstock, Schedule
from penstock.testing import Harness
from tests.engine.effects.conftest import Outside
from tests.engine.looking import until

if TYPE_CHECKING:
    import asyncpg


@pytest.mark.contract("C-61")
async def test_twenty_jobs_on_two_workers_with_one_key_make_one_effect(app: Penstock, outside: Outside) -> None:
    @app.job("mail", attempts=1)
    async def mail(job: Any, args: Any) -> None:
        async def perform(token: str) -> Any:
            await asyncio.sleep(0.05)
            return await outside.perform(token)

        await job.effect("send", key="invoice-7", perform=perform, settle=outside.settle)

    async with Harness(app) as harness:
        await app.enqueue_many("mail", [{}] * 20)
        async with harness.running("one"), harness.running("two"):
            await until(app.pool, "count(*) = 20 from penstock.jobs where status = 'completed'")
        assert await app.pool.fetchval("select sum(attempt_count) from penstock.jobs") == 0
    assert outside.total == 1
    assert outside.asked == []


@pytest.mark.contract("C-60", "C-63")
async def test_handlers_cancelled_at_any_moment_give_their_connections_back(
    app: Penstock, owner: asyncpg.Connection[Any]
) -> None:
    """Fault 45: two connections, sixty handlers stopped somewhere inside their transactions, and nothing is stuck."""
    random = Random(7)  # noqa: S311 - repeatable

    @app.job("write", timeout=timedelta(seconds=0.06), attempts=2, backoff=Schedule([0]))
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute("insert into public.writes (job_id) values ($1)", job.job_id)
            await tx.execute("select pg_sleep($1)", random.choice([0.0, 0.01, 0.05, 0.1]))

    async with Harness(app) as harness:
        hand = await harness.worker(concurrency=20)
        hand.place.lender._size = 2
        await app.enqueue_many("write", [{}] * 60)
        await harness.drain()
        statuses = await app.pool.fetch("select status, count(*) from penstock.jobs group by status")
        counts = {row["status"]: row["count"] for row in statuses}
        pool = hand.place.lender._pool
        assert pool is not None
        assert pool.get_idle_size() == pool.get_size() <= 2
        assert counts.keys() <= {"completed", "failed"}
        assert await owner.fetchval("select count(*) from public.writes") == counts.get("completed", 0)
        assert counts.get("failed", 0) > 0
