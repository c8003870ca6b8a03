"""An office: an application with a few types, the owner's eye on the table, and an ear on the channels."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Penstock
from penstock.contract.policies import Dispatch
from penstock.store import puts

ENRICHMENT_CHANNEL = "litevault_jobs"
CHANNELS = ("penstock_jobs", ENRICHMENT_CHANNEL)


def declare_types(app: Penstock) -> Penstock:
    """A plain type, the one of the vault, and one that only schedules run."""

    @app.job("noop")
    async def noop(args: dict[str, Any]) -> None: ...

    @app.job("other")
    async def other(args: dict[str, Any]) -> None: ...

    @app.job("enrichment", channel=ENRICHMENT_CHANNEL)
    async def enrichment(args: dict[str, Any]) -> None: ...

    @app.job("nightly", dispatch=Dispatch.SCHEDULED)
    async def nightly(args: dict[str, Any]) -> None: ...

    return app


async def until_waiting(watch: asyncpg.Connection[Any], sessions: int = 1) -> None:
    """Until so many sessions wait for another one's transaction."""
    async with asyncio.timeout(10):
        while (
            await watch.fetchval(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            )
            < sessions
        ):
            await watch.execute("select pg_sleep(0.005)")


@dataclass
class Ear:
    """Hears what is notified on the channels."""

    connection: asyncpg.Connection[Any]  # the owner's: a session hears itself as others do, once it has committed
    heard: list[tuple[str, str]] = field(default_factory=list)
    senders: list[int] = field(default_factory=list)  # the sessions that poked
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    marks: int = 0

    async def listen(self) -> None:
        for channel in (*CHANNELS, "mark"):
            await self.connection.add_listener(channel, self._on_notify)

    def _on_notify(self, _connection: object, pid: int, channel: str, payload: object) -> None:
        self.heard.append((channel, str(payload)))
        if channel != "mark":
            self.senders.append(pid)
        self.arrived.set()

    async def next(self) -> tuple[str, str]:
        """The next poke, which must come within a moment."""
        async with asyncio.timeout(10):
            while not self.heard:
                self.arrived.clear()
                await self.arrived.wait()
        return self.heard.pop(0)

    async def all(self) -> list[tuple[str, str]]:
        """Every poke that was committed before now: notifications arrive in the order of the commits."""
        self.marks += 1
        await self.connection.execute("select pg_notify('mark', $1)", str(self.marks))
        async with asyncio.timeout(10):
            while ("mark", str(self.marks)) not in self.heard:
                self.arrived.clear()
                await self.arrived.wait()
        pokes = [poke for poke in self.heard if poke[0] != "mark"]
        self.heard.clear()
        return pokes


@dataclass
class Office:
    """What the tests of this folder work with."""

    app: Penstock
    dsn: str
    owner: asyncpg.Connection[Any]
    ear: Ear

    async def count(self, job_type: str | None = None) -> int:
        """How many jobs are there."""
        found: int = await self.owner.fetchval(
            "select count(*) from penstock.jobs where $1::text is null or job_type = $1", job_type
        )
        return found

    async def job(self, job_id: UUID) -> asyncpg.Record:
        row: asyncpg.Record | None = await self.owner.fetchrow("select * from penstock.jobs where job_id = $1", job_id)
        assert row is not None
        return row

    async def payload(self, job_id: UUID) -> Any:
        return json.loads((await self.job(job_id))["payload"])

    async def flush(self) -> None:
        """Wait for the pokes that are under way, of async callers and of sync ones."""
        if self.app._producer is not None:
            await self.app._producer.pokes.flush()
        await asyncio.to_thread(self.app.close_sync)

    async def pokes(self) -> list[tuple[str, str]]:
        """Every poke for what has been enqueued so far."""
        await self.flush()
        return await self.ear.all()

    @asynccontextmanager
    async def another(self, **settings: Any) -> AsyncIterator[Penstock]:
        """An application of another process, as it were."""
        async with declare_types(Penstock(self.dsn, **settings)) as app:
            yield app


@asynccontextmanager
async def working(app: Penstock, *types: str) -> AsyncIterator[None]:
    """A worker for *types*, as long as the block."""
    worker = app.worker(types or None, insecure=True)
    running = asyncio.create_task(worker.run())
    await worker.ready.wait()
    try:
        yield
    finally:
        worker.stop()
        await running


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each statement, whether it was told to send the poke itself."""
    told: list[bool] = []
    for kind in (puts.NewJob, puts.NewJobs):
        original = kind.arguments

        def arguments(job: Any, poke: bool, original: Any = original) -> tuple[Any, ...]:
            told.append(poke)
            result: tuple[Any, ...] = original(job, poke)
            return result

        monkeypatch.setattr(kind, "arguments", arguments)
    return told


@pytest.fixture
async def office(dsn: str) -> AsyncIterator[Office]:
    app = declare_types(Penstock(dsn))
    owner = await asyncpg.connect(dsn)
    ear = Ear(owner)
    await ear.listen()
    async with app:
        await app.sync_types()
        yield Office(app, dsn, owner, ear)
    await owner.close()
