"""Workers of the vault as they run in a process: with a listener, a poll and a heartbeat of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from penstock.apps.vault import Vault, vault_app
from penstock.emulator import Emulator
from penstock.engine.worker import Worker
from penstock.store.roles import WORKER
from tests.apps.vault.conftest import World
from tests.support.desks import free_port
from tests.support.processes import WorkerProcess

__all__ = ["free_port"]

PATIENCE = 30.0
APP = "penstock.apps.vault:app"


@asynccontextmanager
async def working(vault: Vault, **settings: Any) -> AsyncIterator[Worker]:
    """A worker in this event loop, from its start to its end, with *settings* of its own."""
    if settings:
        own = vault_app(vault.app.settings.model_copy(update=settings))
        async with own.app, working(own) as worker:
            yield worker
        return
    worker = vault.app.worker(dsn=await vault.app.dsn(), concurrency=20)
    task = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(PATIENCE):
            await worker.ready.wait()
        yield worker
    finally:
        worker.stop()
        await task


async def until(owner: asyncpg.Connection[Any], condition: str, *values: Any) -> None:
    """Wait until the database says so; the server does the waiting between looks."""
    async with asyncio.timeout(PATIENCE):
        while not await owner.fetchval(f"select {condition}", *values):
            await owner.execute("select pg_sleep(0.005)")


async def enriched(world: World, count: int) -> None:
    """Wait until *count* items are ready to confirm and their jobs have ended."""
    await until(world.owner, "count(*) >= $1 from vault.items where status = 'READY_TO_CONFIRM'", count)
    await until(world.owner, "count(*) = 0 from penstock.jobs where status in ('queued', 'processing')")


Start = Callable[..., WorkerProcess]


@pytest.fixture
def start(role_dsn: Callable[[str], str], emulator: Emulator) -> Iterator[Start]:
    """`penstock worker penstock.apps.vault:app` in a process of its own, cleared away after the test."""
    started: list[WorkerProcess] = []
    known = {"PENSTOCK_OPENAI_API_KEY": "any", "PENSTOCK_VAULT_MODEL_URL": emulator.openai_base_url}

    def begin(*options: str, dsn: str | None = None, **env: str) -> WorkerProcess:
        worker = WorkerProcess(dsn or role_dsn(WORKER), *options, app=APP, env={**known, **env})
        started.append(worker)
        return worker.ready()

    yield begin
    for worker in started:
        worker.clear_away()
