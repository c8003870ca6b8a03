"""A run opens no connection that it does not need, and gets the one it needs in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.store.roles import WORKER
from tests.engine.looking import until
from tests.engine.runs.conftest import Press

NAMES = "select array_agg(application_name) from pg_stat_activity where datname = current_database()"


@pytest.fixture
def seen(press: Press) -> list[str]:
    """The names of all connections while a handler ran."""
    names: list[str] = []

    async def look(_job: Any, _args: dict[str, Any]) -> None:
        names.extend(await press.owner.fetchval(NAMES))

    press.provider.answer = look
    return names


async def test_a_short_run_of_an_open_application_needs_neither_a_pool_of_its_own_nor_a_heartbeat(
    press: Press, seen: list[str]
) -> None:
    await press.fill(1)

    assert (await press.ran()).succeeded == 1

    assert {"penstock", "penstock worker", "penstock listener"} <= set(seen)
    assert not [name for name in seen if name == "penstock run" or "heartbeat" in name]


async def test_a_run_under_another_login_has_connections_of_its_own(
    press: Press, seen: list[str], role_dsn: Callable[[str], str]
) -> None:
    await press.fill(1)

    assert (await press.ran(dsn=role_dsn(WORKER))).succeeded == 1

    assert "penstock run" in seen


async def test_an_application_with_few_connections_leaves_them_to_its_enqueues(dsn: str) -> None:
    seen: list[str] = []
    async with Penstock(dsn, pool_max=3) as app:

        @app.function("look")
        async def look() -> None:
            async with app.transaction() as tx:
                seen.extend(await tx.fetchval(NAMES))

        await app.run_function("look", insecure=True)

    assert "penstock run" in seen


@pytest.mark.contract("C-20")
async def test_the_heartbeat_of_a_run_that_lasts_connects_in_time_to_renew_its_lease(dsn: str) -> None:
    owner = await asyncpg.connect(dsn)
    async with Penstock(dsn) as app:

        @app.job("digest", dispatch="scheduled", lease=timedelta(seconds=1.5), max_runtime=timedelta(seconds=1))
        async def digest(job: Any) -> None:
            first = await owner.fetchval("select lease_expires_at from penstock.jobs where job_id = $1", job.job_id)
            condition = "lease_expires_at > $2 from penstock.jobs where job_id = $1"
            await until(owner, condition, job.job_id, first)

        await app.enqueue("digest")
        async with asyncio.timeout(20):
            dispatched = await app.run_function("digest", insecure=True)
    await owner.close()

    assert dispatched.run is not None
    assert dispatched.run.succeeded == 1
