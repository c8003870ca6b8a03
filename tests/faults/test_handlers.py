"""Handlers whose database goes away under them: no bug of theirs, whatever driver they use."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from penstock import Penstock
from penstock.contract.backoff import Schedule

if TYPE_CHECKING:
    from tests.support.servers import PrivateServer

WAIT = "select pg_sleep(600)"
WAYS = ("job", "app", "asyncpg", "pool", "psycopg", "psycopg, sync", "sqlalchemy")


class Talks:
    """One way for each driver to hold a transaction on *dsn* until the server is gone."""

    def __init__(self, app: Penstock, dsn: str) -> None:
        self._app = app
        self._dsn = dsn
        self.pool: asyncpg.Pool[Any] | None = None

    async def hold(self, way: str, job: Any, statement: str) -> None:
        """Run *statement* in a transaction."""
        if way == "job":
            async with job.transaction() as tx:
                await tx.execute(statement)
        elif way == "app":
            async with self._app.transaction() as tx:
                await tx.execute(statement)
        elif way == "asyncpg":
            own = await asyncpg.connect(self._dsn)
            try:
                async with own.transaction():
                    await own.execute(statement)
            finally:
                await own.close()
        elif way == "pool":
            assert self.pool is not None
            async with self.pool.acquire() as pooled, pooled.transaction():
                await pooled.execute(statement)
        elif way == "psycopg":
            async with await psycopg.AsyncConnection.connect(self._dsn) as other:
                await other.execute(statement)
        elif way == "psycopg, sync":
            await asyncio.to_thread(self._sync, statement)
        else:
            await self._alchemy(statement)

    def _sync(self, statement: str) -> None:
        with psycopg.connect(self._dsn) as connection:
            connection.execute(statement)

    async def _alchemy(self, statement: str) -> None:
        async def opened(**_: Any) -> Any:
            return await asyncpg.connect(self._dsn)

        engine = create_async_engine(
            "postgresql+asyncpg://", connect_args={"async_creator_fn": opened}, poolclass=NullPool
        )
        async with engine.begin() as connection:
            await connection.execute(text(statement))
        await engine.dispose()


@pytest.mark.contract("C-50", "E-02", "D-81")
async def test_a_server_that_dies_under_its_handlers_makes_no_bug_of_any_of_them(server: PrivateServer) -> None:
    """The first attempt dies with the server, those that follow meet none; the type retries nothing unknown."""
    codes: dict[str, set[str | None]] = defaultdict(set)
    back = asyncio.Event()
    async with Penstock(server.dsn, poll_seconds=1) as app:
        talks = Talks(app, server.dsn)
        entered: list[str] = []

        @app.job("talk", unknown_retryable=False, attempts=50, backoff=Schedule((0.1,)))
        async def talk(job: Any, args: dict[str, str]) -> None:
            entered.append(args["way"])
            await talks.hold(args["way"], job, "select 1" if back.is_set() else WAIT)

        talks.pool = await asyncpg.create_pool(server.dsn, min_size=1, max_size=2)
        worker = app.worker(dsn=server.dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        for way in WAYS:
            await app.enqueue("talk", {"way": way}, key=way)
        async with asyncio.timeout(90):
            owner = await asyncpg.connect(server.dsn)
            while await owner.fetchval("select count(*) from pg_stat_activity where query = $1", WAIT) < len(WAYS):
                await owner.execute("select pg_sleep(0.02)")
            await owner.close()
            await asyncio.to_thread(server.kill)
            back.set()
            await asyncio.to_thread(server.start)
            owner = await asyncpg.connect(server.dsn)
            while await owner.fetchval("select exists (select from penstock.jobs where finished_at is null)"):
                await owner.execute("select pg_sleep(0.05)")
            rows = await owner.fetch("select payload->>'way' as way, status, last_error_code from penstock.jobs")
            await owner.close()
        for row in rows:
            codes[row["status"]].add(row["last_error_code"])
        worker.stop()
        await task
        talks.pool.terminate()
    assert len(rows) == len(WAYS)
    assert codes == {"completed": {"NETWORK_RESET"}}
