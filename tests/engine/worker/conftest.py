"""A bench of workers on one database: started, stopped and watched by the tests of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Penstock
from penstock.engine.worker import Worker
from penstock.store import clock


@dataclass
class Floor:
    """An application with a connection of its owner beside it."""

    app: Penstock
    dsn: str
    owner: asyncpg.Connection[Any]
    workers: list[Worker] = field(default_factory=list)

    @asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[Worker]:
        """A worker that runs as long as the block."""
        worker = self.app.worker(dsn=self.dsn, **{"insecure": True, **options})
        task = asyncio.create_task(worker.run())
        ready = asyncio.create_task(worker.ready.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            ready.cancel()
            await task
        try:
            yield worker
        finally:
            worker.stop()
            await task

    async def pass_time(self, **span: float) -> None:
        """Wind the clock of the database forward."""
        await clock.wind(self.owner, timedelta(**span))

    async def job(self, job_id: UUID) -> asyncpg.Record:
        """The row of a job."""
        row: asyncpg.Record | None = await self.owner.fetchrow("select * from penstock.jobs where job_id = $1", job_id)
        assert row is not None
        return row

    async def until(self, condition: str, *arguments: Any, seconds: float = 15) -> None:
        """Wait until a query answers true; looked at every few milliseconds by the server itself."""
        async with asyncio.timeout(seconds):
            while not await self.owner.fetchval(f"select {condition}", *arguments):
                await self.owner.execute("select pg_sleep(0.005)")

    async def counts(self) -> dict[str, int]:
        """How many jobs there are of each status."""
        rows = await self.owner.fetch("select status, count(*) from penstock.jobs group by status")
        return {row["status"]: row["count"] for row in rows}


@pytest.fixture
async def floor(dsn: str) -> AsyncIterator[Floor]:
    app = Penstock(dsn, grace_seconds=5)
    owner = await asyncpg.connect(dsn)
    async with app:
        yield Floor(app, dsn, owner)
    await owner.close()
