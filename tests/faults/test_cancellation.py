"""Tasks that are cancelled at any moment: their connections come back, and none is left in a transaction."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from penstock import Penstock
from penstock.store import claims

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from penstock.store.connect import Pool
    from tests.engine.worker.conftest import Floor

SIZE = 4
LEASE = timedelta(minutes=5)
LEFT_OPEN = (
    "not exists (select from pg_stat_activity where datname = current_database() and application_name = 'penstock' "
    "and state <> 'idle')"
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.contract("C-48")
async def test_a_task_cancelled_at_any_moment_gives_its_connection_back(dsn: str, floor: Floor, seed: int) -> None:
    """Fault 45: four connections, two hundred tasks, each cancelled after a random number of turns of the loop."""
    chance = random.Random(seed)  # noqa: S311 - which moments, no secrets
    async with Penstock(dsn, pool_max=SIZE) as app:
        app.job("echo")(nothing)
        await app.enqueue("echo")
        acts: list[Callable[[], Coroutine[Any, Any, object]]] = [
            lambda: app.enqueue("echo", {"n": 1}, key=str(chance.random())),
            lambda: app.enqueue_many("echo", [{"n": n} for n in range(50)]),
            lambda: _in_transaction(app),
            lambda: claims.take_gated(app.pool, "echo", LEASE, limit=5, worker="w", run=uuid4()),
        ]
        async with asyncio.timeout(60):
            for _ in range(50):
                await asyncio.gather(*(_cut_short(chance.choice(acts)(), chance) for _ in range(SIZE)))
        await _all_free(app.pool)
        await floor.until(LEFT_OPEN)
        whole = await app.enqueue_many("echo", [{"n": n} for n in range(10)])
        assert len(whole) == 10
    counts = await floor.owner.fetch("select payload->'n' from penstock.jobs")
    assert len(counts) >= 11  # a bulk that was cut short is in as a whole, or not at all
    assert await floor.owner.fetchval(
        "select count(*) filter (where payload @> '{\"n\": 3}') = count(*) filter (where payload @> '{\"n\": 7}') "
        "from penstock.jobs"
    )


async def nothing(job: Any, args: Any) -> None:
    """Done."""


async def _in_transaction(app: Penstock) -> None:
    async with app.transaction() as tx:
        await tx.execute("select 1")
        await app.enqueue("echo", {"in": "transaction"})


async def _cut_short(act: Coroutine[Any, Any, object], chance: random.Random) -> None:
    task = asyncio.create_task(act)
    for _ in range(chance.randrange(60)):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _all_free(pool: Pool) -> None:
    """As many as the pool has can be had at once, and each of them works."""
    async with asyncio.timeout(10):
        held = [await pool.acquire() for _ in range(SIZE - 2)]  # two may rest with the producer
        for connection in held:
            assert await connection.fetchval("select 1") == 1
            await pool.release(connection)
