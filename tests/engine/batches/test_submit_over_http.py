"""The lane over HTTP: the real adapter and its SDK against the emulator, out and back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Job, Penstock
from penstock.contract.calls import Request, Route
from penstock.contract.claims import Trigger
from penstock.emulator import Emulator
from penstock.store import clock
from tests.engine.batches.conftest import COLLECTOR, SUBMITTER, TYPE, accept
from tests.engine.owners import owner_of
from tests.support.emulator import BATCH_SECONDS, emulator

__all__ = ["emulator"]

CREATE = {"method": "POST", "path": "/batches$"}


class World:
    """An application whose provider is a server on loopback."""

    def __init__(self, app: Penstock, owner: asyncpg.Connection[Any], emulator: Emulator) -> None:
        self.app = app
        self.owner = owner
        self.emulator = emulator

    async def run(self, function: str = SUBMITTER) -> None:
        """One call of a function."""
        await self.app.run_function(function, trigger=Trigger.SCHEDULE, insecure=True)

    async def pass_time(self, **span: float) -> None:
        """Let time pass for the database and the provider."""
        await clock.wind(self.owner, timedelta(**span))

    async def jobs(self) -> set[tuple[str, int, str | None]]:
        """(status, attempts, error) of every job."""
        rows = await self.owner.fetch("select status, attempt_count, last_error_code from penstock.jobs")
        return {tuple(row) for row in rows}


@pytest.fixture
async def world(dsn: str, emulator: Emulator) -> AsyncIterator[World]:
    """Five jobs wait."""
    route = Route("openai", "gpt-test", "openai_responses", emulator.openai_base_url)

    def build(_job: Job, args: dict[str, Any]) -> Request:
        return Request(route, "Rewrite politely.", f"letter {args['n']}")

    app = Penstock(dsn, openai_api_key="any-key", grace_seconds=5)
    app.lane(TYPE, build=build, accept=accept)
    async with app:
        await app.sync_types()
        for n in range(5):
            await app.enqueue(TYPE, {"n": n})
        yield World(app, owner_of(app), emulator)


@pytest.mark.contract("A-40", "Q-74")
async def test_jobs_go_out_and_come_back(world: World) -> None:
    await world.run()

    assert await world.jobs() == {("batch_submitted", 0, None)}
    (batch,) = world.emulator.batches
    assert await world.owner.fetchval("select provider_batch_id from penstock.batches") == batch.id
    world.emulator.advance(BATCH_SECONDS)
    await world.pass_time(minutes=30)
    await world.run(COLLECTOR)
    assert await world.jobs() == {("completed", 0, None)}


@pytest.mark.contract("C-36")
async def test_a_create_whose_reply_was_lost_is_found_by_its_token(world: World) -> None:
    world.emulator.faults.add("drop_after", **CREATE, nth=1)

    await world.run()
    assert await world.owner.fetchval("select state from penstock.batches") == "uncertain"
    await world.run()

    assert len(world.emulator.batches) == 1
    assert await world.jobs() == {("batch_submitted", 0, None)}


@pytest.mark.contract("C-36")
async def test_a_create_that_never_arrived_is_sent_again_once_that_is_proven(world: World) -> None:
    world.emulator.faults.add("drop", **CREATE, nth=1)

    await world.run()
    for _ in range(2):
        await world.run()
        await world.pass_time(minutes=15)
    await world.run()

    assert len(world.emulator.batches) == 1
    assert await world.jobs() == {("batch_submitted", 0, None)}


@pytest.mark.contract("C-37")
@pytest.mark.parametrize(
    ("fault", "code"),
    [("unauthorized", "AUTH_DENIED"), ("quota", "QUOTA_EXHAUSTED"), ("rate_limited", "RATE_LIMITED")],
)
@pytest.mark.parametrize("path", ["/files$", "/batches$"])
async def test_a_refusal_on_the_wire_costs_no_job_anything(world: World, fault: str, code: str, path: str) -> None:
    world.emulator.faults.add(fault, method="POST", path=path, times=1)

    await world.run()

    assert await world.jobs() == {("queued", 0, code)}
    assert await world.owner.fetchval("select breaker from penstock.types where job_type = $1", TYPE) == "open"
    await world.pass_time(minutes=30)
    await world.run()
    assert {status for status, attempts, _ in await world.jobs() if attempts == 0} == {"batch_submitted"}
