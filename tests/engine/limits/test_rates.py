"""How much may start in a period: a window that slides (C-64)."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from penstock import Limits, Penstock, Rate
from penstock.store import claims
from penstock.testing import Harness
from tests.engine.looking import nothing, until

MINUTE = timedelta(minutes=1)
LEASE = timedelta(days=1)


async def take(app: Penstock, limit: int = 100) -> int:
    taken = await claims.take_gated(app.pool, "limited", LEASE, limit=limit, worker="w", run=uuid4())
    return len(taken)


def limited(app: Penstock, **limits: Any) -> None:
    app.job("limited", limits=Limits(**limits))(nothing)


@pytest.mark.contract("C-64")
async def test_no_more_start_in_a_period_than_its_rate(app: Penstock) -> None:
    limited(app, rate=Rate(5, MINUTE))
    async with Harness(app) as harness:
        await app.enqueue_many("limited", [{}] * 20)
        assert [await take(app), await take(app)] == [5, 0]
        await harness.pass_time(seconds=55)
        assert await take(app) == 0
        await harness.pass_time(seconds=6)
        assert [await take(app), await take(app)] == [5, 0]


@pytest.mark.contract("C-64")
async def test_room_comes_back_as_each_start_grows_old(app: Penstock) -> None:
    limited(app, rate=Rate(5, MINUTE))
    async with Harness(app) as harness:
        await app.enqueue_many("limited", [{}] * 20)
        assert await take(app, limit=2) == 2
        await harness.pass_time(seconds=30)
        assert await take(app) == 3
        await harness.pass_time(seconds=31)
        assert await take(app) == 2
        await harness.pass_time(seconds=30)
        assert await take(app) == 3


@pytest.mark.contract("C-64")
@pytest.mark.parametrize("seed", range(3))
async def test_no_stretch_of_time_ever_holds_more_starts(app: Penstock, seed: int) -> None:
    """Checked over all pairs of starts, also after old entries were joined to save room."""
    random = Random(seed)  # noqa: S311 - repeatable
    count, period = 150, MINUTE
    limited(app, rate=Rate(count, period))
    async with Harness(app) as harness:
        await app.enqueue_many("limited", [{}] * 1200)
        for _ in range(450):
            await take(app, limit=random.choice([1, 1, 2, 5]))
            await harness.pass_time(seconds=random.choice([0.05, 0.2, 0.5, 2]))
        starts = [
            row[0]
            for row in await app.pool.fetch(
                "select claimed_at from penstock.jobs where claimed_at is not null order by claimed_at"
            )
        ]
        entries = await app.pool.fetchval("select cardinality(starts) from penstock.rates")
    assert entries <= 101
    for first, behind in zip(starts, starts[count:], strict=False):
        assert behind - first >= period
    spanned = (starts[-1] - starts[0]) / period
    assert len(starts) > 0.8 * count * spanned  # and the rate is made use of


@pytest.mark.contract("C-64")
async def test_each_key_has_its_own_rate_beside_that_of_the_type(app: Penstock) -> None:
    limited(app, rate=Rate(5, MINUTE), key_rate=Rate(2, MINUTE))
    async with Harness(app) as harness:
        keys = [None, "a", "b", "c"] * 5
        await app.enqueue_many("limited", [{}] * 20, limit_keys=keys)
        assert [await take(app), await take(app)] == [5, 0]
        await harness.pass_time(seconds=61)
        assert [await take(app), await take(app)] == [5, 0]
        rows = await app.pool.fetch(
            "select limit_key, count(*) from penstock.jobs where status = 'processing' group by limit_key"
        )
    assert all(row["count"] <= 4 for row in rows)


@pytest.mark.contract("C-64")
async def test_a_key_at_its_rate_does_not_hold_up_another(app: Penstock) -> None:
    limited(app, key_rate=Rate(1, MINUTE))
    async with Harness(app):
        await app.enqueue_many("limited", [{}] * 1001, limit_keys=["a"] * 1000 + ["b"])
        assert await take(app) == 2
        assert await take(app) == 0


@pytest.mark.contract("C-64", "C-29")
async def test_a_worker_sleeps_exactly_until_there_is_room(app: Penstock) -> None:
    limited(app, rate=Rate(2, MINUTE))
    async with Harness(app) as harness:
        await app.enqueue_many("limited", [{}] * 5)
        await take(app)
        await harness.pass_time(seconds=20)
        wake = await claims.next_wake(app.pool, ["limited"])
        assert wake.gate is not None
        assert timedelta(seconds=38) < wake.gate <= timedelta(seconds=40)


@pytest.mark.contract("C-64", "C-29")
async def test_a_worker_looks_at_keys_again_when_the_first_of_them_has_room(app: Penstock) -> None:
    limited(app, key_rate=Rate(1, timedelta(seconds=0.8)))
    async with Harness(app):
        await app.enqueue_many("limited", [{}] * 4, limit_keys=["a", "a", "b", "b"])
        await take(app)
        wake = await claims.next_wake(app.pool, ["limited"])
        assert wake.gate is not None
        assert timedelta(0) < wake.gate <= timedelta(seconds=0.8)


@pytest.mark.contract("C-64", "C-29")
async def test_workers_start_the_next_as_soon_as_the_rate_allows(app: Penstock) -> None:
    """Nobody pokes, and the poll is half a minute away."""
    limited(app, rate=Rate(4, timedelta(seconds=0.5)))
    async with Harness(app) as harness:
        await app.enqueue_many("limited", [{}] * 16)
        async with harness.running("one"), harness.running("two"):
            await until(app.pool, "count(*) = 16 from penstock.jobs where status = 'completed'", seconds=15)
        rows = await app.pool.fetch("select claimed_at from penstock.jobs order by claimed_at")
    starts = [row[0] for row in rows]
    for first, behind in zip(starts, starts[4:], strict=False):
        assert behind - first >= timedelta(seconds=0.5)
