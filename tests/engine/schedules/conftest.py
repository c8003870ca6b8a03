"""Schedulers on one database, driven turn by turn, with a clock that the tests wind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.engine.scheduler import Scheduler
from penstock.store import clock


@dataclass
class Station:
    """An application, its owner's connection, and the schedulers that a test has opened."""

    dsn: str
    owner: asyncpg.Connection[Any]
    opened: list[Any] = field(default_factory=list)

    def app(self, **settings: Any) -> Penstock:
        """A fresh application on the same database, as after a deploy; the functions of the house are left out."""
        app = Penstock(self.dsn, grace_seconds=5, **settings)
        app.functions.housekeeping = ()
        return app

    async def scheduler(self, app: Penstock, name: str = "first", **options: Any) -> Scheduler:
        """An open scheduler of *app* that moves when it is told to."""
        scheduler = app.scheduler(name=name, **{"insecure": True, **options})
        await scheduler.open()
        self.opened.append(scheduler)
        return scheduler

    async def set_clock(self, moment: datetime) -> None:
        """Wind the clock to *moment*."""
        await self.owner.execute(
            "insert into penstock.clock (shift) values ($1 - statement_timestamp()) "
            "on conflict (only_row) do update set shift = excluded.shift",
            moment,
        )

    async def pass_time(self, **span: float) -> None:
        """Wind the clock forward."""
        await clock.wind(self.owner, timedelta(**span))

    async def schedule(self, name: str) -> asyncpg.Record:
        """The row of a schedule."""
        row: asyncpg.Record | None = await self.owner.fetchrow(
            "select * from penstock.schedules where schedule = $1", name
        )
        assert row is not None
        return row

    async def runs(self) -> list[asyncpg.Record]:
        """Every run record, oldest first."""
        return await self.owner.fetch("select * from penstock.runs order by started_at, run_id")

    async def jobs(self) -> list[asyncpg.Record]:
        """Every job, oldest first."""
        return await self.owner.fetch("select * from penstock.jobs order by created_at, job_id")


@pytest.fixture
async def station(dsn: str) -> AsyncIterator[Station]:
    owner = await asyncpg.connect(dsn)
    made = Station(dsn, owner)
    yield made
    for scheduler in made.opened:
        await scheduler.settle(5)
        await scheduler.close()
    await owner.close()


Factory = Callable[..., Any]
