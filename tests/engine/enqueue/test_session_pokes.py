"""The first poke after a pause comes from the very session that has committed, and costs it nothing if it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from penstock.store.drivers import alchemy
from tests.engine.enqueue.callers import alchemy_url
from tests.engine.enqueue.conftest import Office

NOOP = ("penstock_jobs", '{"job_type": "noop"}')


@pytest.fixture
async def session(office: Office) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(alchemy_url(office.dsn, "asyncpg"), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


async def backend(session: AsyncSession) -> int:
    found: int = (await session.execute(text("select pg_backend_pid()"))).scalar_one()
    return found


@pytest.mark.contract("C-27", "D-18", "D-37")
async def test_a_session_pokes_by_itself_after_its_commit_and_outside_its_transaction(
    office: Office, session: AsyncSession, told: list[bool]
) -> None:
    own = await backend(session)
    await office.app.enqueue("noop", {"n": 1}, connection=session)
    assert (told, await office.pokes()) == ([False], [])

    await session.commit()

    assert await office.ear.all() == [NOOP], "without waiting for any poke of ours"
    assert office.ear.senders == [own]


@pytest.mark.contract("C-27")
async def test_in_a_burst_of_commits_the_first_pokes_by_itself_and_the_others_together(
    office: Office, session: AsyncSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert office.app._producer is not None
    monkeypatch.setattr(office.app._producer.pokes, "_seconds", 1.0)
    own = set()
    for n in range(3):
        own.add(await backend(session))
        await office.app.enqueue("noop", {"n": n}, connection=session)
        await session.commit()

    assert await office.pokes() == [NOOP, NOOP]
    assert [sender in own for sender in office.ear.senders] == [True, False]


@pytest.mark.contract("C-27")
async def test_a_session_that_is_cut_off_after_its_commit_has_committed_and_another_connection_pokes(
    office: Office, session: AsyncSession
) -> None:
    own = await backend(session)

    def cut_off(_: object) -> None:
        with psycopg.connect(office.dsn) as other:
            other.execute("select pg_terminate_backend(%s, 5000)", [own])

    event.listen(session.sync_session, "after_commit", cut_off)
    await office.app.enqueue("noop", {"n": 1}, connection=session)

    await session.commit()

    assert await office.pokes() == [NOOP]
    assert office.ear.senders != [own]
    assert await office.count() == 1


@pytest.mark.contract("C-27")
async def test_a_caller_who_is_cancelled_while_the_session_pokes_leaves_a_job_that_is_poked_for(
    office: Office, session: AsyncSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(*_: object) -> bool:
        raise asyncio.CancelledError

    monkeypatch.setattr(alchemy, "_said", cancelled)
    await office.app.enqueue("noop", {"n": 1}, connection=session)

    with pytest.raises(asyncio.CancelledError):
        await session.commit()

    assert (await office.pokes(), await office.count()) == ([NOOP], 1)


@pytest.mark.contract("C-27")
async def test_a_session_that_rolls_back_pokes_nobody(office: Office, session: AsyncSession) -> None:
    await office.app.enqueue("noop", {"n": 1}, connection=session)
    await session.rollback()
    await session.execute(text("select 1"))
    await session.commit()

    assert (await office.pokes(), await office.count()) == ([], 0)
