"""The vault behind a real PgBouncer in transaction mode, its listener on a way of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from penstock.apps.vault import UnknownItem
from penstock.emulator import Emulator
from penstock.store import connect, migrate
from penstock.store.checks import session
from penstock.store.doctor import Severity, examine
from penstock.store.roles import ORCHESTRATOR, WORKER
from tests.apps.vault.conftest import World, opened_world
from tests.apps.vault.ops.conftest import Start, enriched, until, working
from tests.support import clusters
from tests.support.pgbouncer import PgBouncer, pgbouncer

SIZE = 3  # sessions of the server for each login
TRIGGERS = "select array_agg(distinct trigger order by trigger) from penstock.runs where claimed_count > 0"
SESSIONS = """
select count(*) from pg_stat_activity
 where datname = current_database() and usename = 'penstock_worker' and application_name <> 'penstock listener'
"""


@pytest.fixture
def pooler(dsn: str) -> Iterator[PgBouncer]:
    """PgBouncer with few sessions for many clients."""
    with pgbouncer(dsn, size=SIZE) as started:
        yield started


Behind = Callable[..., Any]


@pytest.fixture
def behind(pooler: PgBouncer, dsn: str, role_dsn: Callable[[str], str], emulator: Emulator, log: StringIO) -> Behind:
    """Open a world in which everybody goes through the pooler."""

    @asynccontextmanager
    async def opened(**settings: Any) -> AsyncIterator[World]:
        given = {"prepared_statements": False, **settings}
        way: Callable[[str], str] = lambda role: pooler.dsn(role_dsn(role))  # noqa: E731 - a way to the database
        async with opened_world(dsn, way, emulator, log, **given) as world:
            yield world

    return opened


@pytest.mark.contract("D-88", "D-89", "C-29")
async def test_items_are_enriched_at_once_through_a_pooler_while_the_listener_goes_around_it(
    behind: Behind, role_dsn: Callable[[str], str]
) -> None:
    async with behind(listen_dsn=role_dsn(WORKER)) as world:
        async with working(world.worker) as worker:
            saved = [await world.save() for _ in range(5)]
            await enriched(world, len(saved))
            assert not worker.listener.delays
        assert world.asked() == len(saved)
        assert await world.owner.fetchval(TRIGGERS) == ["notify"]  # a run is recorded after its last job


@pytest.mark.contract("D-80", "D-88")
async def test_many_workers_share_a_few_sessions_of_the_server_and_ask_about_no_item_twice(
    behind: Behind, pooler: PgBouncer, role_dsn: Callable[[str], str]
) -> None:
    async with behind(listen_dsn=role_dsn(WORKER)) as world, AsyncExitStack() as crew:
        for _ in range(4):
            await crew.enter_async_context(working(world.worker))
        await asyncio.gather(*(world.save() for _ in range(40)))
        await enriched(world, 40)
        assert world.asked() == 40
        assert await world.owner.fetchval(SESSIONS) <= SIZE
        assert await left_behind(pooler, role_dsn) == [0] * SIZE * 2
        assert await world.owner.fetchval("select sum(attempt_count) from penstock.jobs") == 0


async def left_behind(pooler: PgBouncer, role_dsn: Callable[[str], str]) -> list[int]:
    """How many prepared statements stand in each session of the server that clients share."""
    counts = []
    async with AsyncExitStack() as held:
        for role in (ORCHESTRATOR, WORKER):
            for _ in range(SIZE):
                client = await connect.connect(pooler.dsn(role_dsn(role)), prepared=False)
                held.push_async_callback(client.close)
                await held.enter_async_context(client.transaction())  # so that the next one gets another session
                counts.append(await client.fetchval("select count(*) from pg_prepared_statements where name <> ''"))
    return counts


@pytest.mark.contract("D-85", "D-19", "D-03")
async def test_a_listener_that_goes_through_the_pooler_hears_nothing_and_the_poll_does_it_all(behind: Behind) -> None:
    async with behind(poll_seconds=0.2) as world, working(world.worker):
        saved = [await world.save() for _ in range(5)]
        await enriched(world, len(saved))


@pytest.mark.contract("D-88")
async def test_worker_processes_with_all_their_parts_work_through_a_pooler(
    behind: Behind, pooler: PgBouncer, role_dsn: Callable[[str], str], start: Start, free_port: Callable[[], int]
) -> None:
    """Supervisor, two processes, heartbeats and metrics: every connection of theirs but the listener's is pooled."""
    direct = role_dsn(WORKER)
    env = {"PENSTOCK_LISTEN_DSN": direct, "PENSTOCK_PREPARED_STATEMENTS": "false"}
    async with behind(listen_dsn=direct) as world:
        options = ("--processes", "2", "--name", "pooled", "--metrics-port", str(free_port()))
        begun = await asyncio.to_thread(start, *options, dsn=pooler.dsn(direct), **env)
        saved = await asyncio.gather(*(world.save() for _ in range(20)))
        await enriched(world, len(saved))
        await until(world.owner, "count(*) = 2 from penstock.workers where heartbeat_at > started_at")
        assert await asyncio.to_thread(begun.stop) == 0
        assert world.asked() == len(saved)
        assert [line for line in begun.events if line["level"] not in ("debug", "info")] == []


@pytest.mark.parametrize("template", [clusters.BARE_TEMPLATE])
def test_the_applications_can_be_migrated_through_a_pooler(pooler: PgBouncer, dsn: str) -> None:
    through = pooler.dsn(dsn)
    assert {state.up_to_date for state in migrate.status(through, migrate.lines())} == {True, False}
    for _ in range(2):
        migrate.upgrade(through, to=migrate.lines())
        assert {state.up_to_date for state in migrate.status(through, migrate.lines())} == {True}


async def test_whose_items_a_transaction_sees_ends_with_it_on_a_session_that_is_handed_on(behind: Behind) -> None:
    async with behind() as world:
        item = await world.save()
        async with world.people.session() as session:
            seen = await session.execute(text("select current_setting('penstock.owner_id', true)"))
            assert not seen.scalar_one()
        for _ in range(SIZE * 2):
            with pytest.raises(UnknownItem):
                await world.people.read_item(owner_id=uuid4(), item_id=item.id)
            assert await world.status(item) == "ENRICHING"


async def test_the_doctor_names_a_pooler_in_the_way_and_is_content_with_a_way_around_it(
    pooler: PgBouncer, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "PATIENCE", 0.5)
    through = pooler.dsn(dsn)
    found = [finding for finding in await examine(through) if finding.check in ("pooler", "listening")]
    assert {finding.check for finding in found} == {"pooler", "listening"}
    assert Severity.ERROR in {finding.severity for finding in found}
    mended = await examine(through, listen_dsn=dsn, prepared=False)
    assert [finding for finding in mended if finding.check in ("pooler", "listening", "startup_parameters")] == []
