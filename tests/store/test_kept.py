"""The connection that a worker keeps for its claims: always the same one, until it is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from penstock.store import connect
from penstock.store.kept import Kept

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SOON = 0.3
PID = "select pg_backend_pid() as pid"


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[asyncpg.Pool[Any]]:
    pool = await connect.create_pool(dsn, size=2, answer_within=SOON)
    yield pool
    pool.terminate()


@pytest.fixture
def kept(pool: asyncpg.Pool[Any]) -> Kept:
    return Kept(pool, answer_within=SOON)


async def pid_of(kept: Kept) -> int:
    return int((await kept.fetch(PID))[0]["pid"])


async def test_statement_after_statement_takes_the_same_connection_and_nobody_else_gets_it(
    pool: asyncpg.Pool[Any], kept: Kept
) -> None:
    pid = await pid_of(kept)
    assert await pool.fetchval(PID) != pid
    assert [await pid_of(kept) for _ in range(3)] == [pid] * 3


async def test_it_may_rest_for_longer_than_a_statement_may_take(pool: asyncpg.Pool[Any], kept: Kept) -> None:
    pid = await pid_of(kept)
    for _ in range(3):
        await pool.execute("select pg_sleep($1)", SOON / 2)
    assert await pid_of(kept) == pid


async def test_a_statement_that_gets_no_answer_is_cut_off_and_the_next_one_is_answered(kept: Kept) -> None:
    pid = await pid_of(kept)
    async with asyncio.timeout(10):
        with pytest.raises(connect.AWAY):
            await kept.fetch("select pg_sleep(60)")
    assert await pid_of(kept) != pid


async def test_a_connection_that_was_closed_while_it_rested_is_replaced_without_an_error(
    pool: asyncpg.Pool[Any], kept: Kept
) -> None:
    pid = await pid_of(kept)
    lost = asyncio.Event()
    kept._connection.add_termination_listener(lambda _: lost.set())
    await pool.execute("select pg_terminate_backend($1)", pid)
    async with asyncio.timeout(10):
        await lost.wait()
    assert await pid_of(kept) != pid


async def test_a_statement_that_fails_spoils_nothing(pool: asyncpg.Pool[Any], kept: Kept) -> None:
    with pytest.raises(asyncpg.UndefinedTableError):
        await kept.fetch("select * from nowhere")
    assert pool.get_idle_size() == pool.get_size()
    assert await pid_of(kept)


async def test_the_pool_closes_once_it_has_its_connection_back(pool: asyncpg.Pool[Any], kept: Kept) -> None:
    await pid_of(kept)
    await kept.give_back()
    await kept.give_back()  # there is nothing to give
    async with asyncio.timeout(5):
        await pool.close()
