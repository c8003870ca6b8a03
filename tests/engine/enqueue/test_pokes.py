"""A poke is sent when the root transaction has committed, and not before; it carries no data."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from penstock import Penstock
from tests.engine.enqueue.callers import alchemy_url
from tests.engine.enqueue.conftest import ENRICHMENT_CHANNEL, Office, declare_types

NOOP = ("penstock_jobs", '{"job_type": "noop"}')


@pytest.mark.contract("D-34", "D-35", "D-75", "C-28")
async def test_a_poke_names_its_type_on_the_channel_of_its_policy(office: Office) -> None:
    await office.app.enqueue("enrichment", {"item_id": 7, "title": "a secret"})
    await office.app.enqueue("noop", {"n": 1})

    pokes = dict(await office.pokes())

    assert pokes == {"litevault_jobs": '{"job_type": "enrichment"}', "penstock_jobs": '{"job_type": "noop"}'}


@pytest.mark.contract("C-23")
async def test_a_scheduled_type_is_never_poked(office: Office) -> None:
    async with office.app.transaction() as tx:
        await office.app.enqueue("nightly", {"n": 1}, connection=tx)
    await office.app.enqueue("nightly", {"n": 2})
    await office.app.enqueue_many("nightly", [{"n": 3}])
    await office.owner.execute("select penstock.enqueue('nightly', '{}')")

    assert await office.pokes() == []
    assert await office.count("nightly") == 4


@pytest.mark.contract("C-27")
async def test_a_bulk_enqueue_sends_one_poke(office: Office) -> None:
    await office.app.enqueue_many("noop", [{"n": n} for n in range(3000)])

    assert await office.pokes() == [NOOP]


@pytest.mark.contract("C-27", "C-65")
async def test_a_key_that_made_no_new_job_sends_no_poke(office: Office) -> None:
    await office.app.enqueue("noop", {"n": 1}, key="k")
    await office.pokes()

    await office.app.enqueue("noop", {"n": 1}, key="k")
    await office.app.enqueue_many("noop", [{"n": 1}], keys=["k"])

    assert await office.pokes() == []


@pytest.mark.contract("C-27")
async def test_a_thousand_enqueues_at_once_send_the_first_poke_at_once_and_then_a_few(office: Office) -> None:
    async with office.another(poke_ms=200) as app:
        enqueues = [asyncio.create_task(app.enqueue("noop", {"n": n})) for n in range(300)]
        assert await office.ear.next() == NOOP
        assert not all(task.done() for task in enqueues), "the first poke waited for the rest"
        await asyncio.gather(*enqueues)

    pokes = await office.ear.all()
    assert 1 <= len(pokes) < 30, "at most one every 200 ms"
    assert set(pokes) == {NOOP}


@pytest.mark.contract("C-28", "C-27")
async def test_pokes_for_several_types_on_one_channel_become_one_that_wakes_all(office: Office) -> None:
    async with office.another(poke_ms=500) as app:
        await app.enqueue("noop", {"n": 0})
        assert await office.ear.next() == NOOP
        await app.enqueue("noop", {"n": 1})
        await app.enqueue("other", {"n": 2})

    assert await office.ear.all() == [("penstock_jobs", "")]


@pytest.mark.contract("C-27")
async def test_closing_the_application_sends_the_pokes_that_still_wait(office: Office) -> None:
    async with office.another(poke_ms=500) as app:
        await app.enqueue("noop", {"n": 0})
        assert await office.ear.next() == NOOP
        await app.enqueue("noop", {"n": 1})

    assert await office.ear.all() == [NOOP]


# ------------------------------------------------------ transactions of the engine


@pytest.mark.contract("C-27", "D-33", "D-37")
async def test_a_transaction_of_the_engine_pokes_after_its_commit_and_never_after_a_rollback(office: Office) -> None:
    async with office.app.transaction() as tx:
        await office.app.enqueue("noop", {"n": 1}, connection=tx)
        await office.app.enqueue_many("noop", [{"n": 2}, {"n": 3}], connection=tx)
        assert await office.pokes() == []
    assert await office.pokes() == [NOOP]

    with suppress(ZeroDivisionError):
        async with office.app.transaction() as tx:
            await office.app.enqueue("noop", {"n": 4}, connection=tx)
            raise ZeroDivisionError
    assert await office.pokes() == []
    assert await office.count() == 3


@pytest.mark.contract("C-27", "D-08")
async def test_inside_a_transaction_of_the_engine_enqueue_joins_it_without_being_told(office: Office) -> None:
    with suppress(ZeroDivisionError):
        async with office.app.transaction():
            await office.app.enqueue("noop", {"n": 1})
            await office.app.enqueue_many("noop", [{"n": 2}])
            raise ZeroDivisionError
    assert await office.count() == 0

    async with office.app.transaction():
        await office.app.enqueue("noop", {"n": 1})
        await asyncio.create_task(office.app.enqueue("noop", {"n": 2}))  # a task of its own has a life of its own
        assert await office.count() == 1
    assert await office.count() == 2


@pytest.mark.contract("C-27")
async def test_the_transaction_of_one_application_does_not_catch_the_jobs_of_another(office: Office) -> None:
    async with office.another() as other, office.app.transaction():
        await other.enqueue("noop", {"n": 1})
        assert await office.count() == 1


@pytest.mark.contract("C-27", "D-33")
async def test_releasing_a_savepoint_of_the_engines_transaction_sends_nothing(office: Office) -> None:
    async with office.app.transaction() as tx:
        async with tx.transaction():
            await office.app.enqueue("noop", {"n": 1}, connection=tx)
        assert await office.pokes() == []
    assert await office.pokes() == [NOOP]


async def test_what_a_transaction_left_in_its_session_is_gone_for_the_next(office: Office) -> None:
    async with office.another(pool_max=2) as app:
        for _ in range(3):
            async with app.transaction() as tx:
                assert await tx.fetchval("show statement_timeout") == "0"
                await tx.execute("set statement_timeout = '5s'")


# -------------------------------------------------------------------- sessions


@pytest.fixture
async def session(office: Office) -> Any:
    engine = create_async_engine(alchemy_url(office.dsn, "asyncpg"), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


@pytest.mark.contract("C-27", "D-33", "D-37")
async def test_a_session_pokes_after_the_root_commit_and_not_when_a_savepoint_is_released(
    office: Office, session: AsyncSession
) -> None:
    async with session.begin_nested():
        await office.app.enqueue("noop", {"n": 1}, connection=session)
    assert await office.pokes() == []

    await session.commit()
    assert await office.pokes() == [NOOP]


@pytest.mark.contract("C-27", "D-33")
async def test_a_session_that_rolls_back_after_releasing_a_savepoint_sends_nothing(
    office: Office, session: AsyncSession
) -> None:
    async with session.begin_nested():
        await office.app.enqueue("noop", {"n": 1}, connection=session)
    await session.rollback()
    await session.execute(text("select 1"))
    await session.commit()

    assert await office.pokes() == []
    assert await office.count() == 0


@pytest.mark.contract("C-27", "C-53")
async def test_a_session_that_goes_back_to_a_savepoint_pokes_only_for_what_is_left(
    office: Office, session: AsyncSession
) -> None:
    await office.app.enqueue("enrichment", {"n": 1}, connection=session)
    with suppress(ZeroDivisionError):
        async with session.begin_nested():
            async with session.begin_nested():
                await office.app.enqueue("noop", {"n": 2}, connection=session)
            raise ZeroDivisionError
    await session.commit()

    assert await office.pokes() == [(ENRICHMENT_CHANNEL, '{"job_type": "enrichment"}')]
    assert await office.count() == 1


@pytest.mark.contract("C-27")
async def test_a_session_closed_without_a_commit_sends_nothing_and_forgets(
    office: Office, session: AsyncSession
) -> None:
    await office.app.enqueue("noop", {"n": 1}, connection=session)
    await session.close()
    await session.execute(text("select 1"))
    await session.commit()

    assert await office.pokes() == []


@pytest.mark.contract("C-27")
async def test_a_session_used_again_pokes_again(office: Office, session: AsyncSession) -> None:
    for n in range(2):
        await office.app.enqueue("noop", {"n": n}, connection=session)
        await session.commit()
        assert await office.pokes() == [NOOP]


@pytest.mark.contract("C-27", "D-33")
async def test_a_session_inside_a_foreign_transaction_leaves_the_poke_to_the_real_commit(office: Office) -> None:
    engine = create_engine(alchemy_url(office.dsn, "psycopg"), poolclass=NullPool)
    with engine.connect() as connection:
        transaction = connection.begin()
        with Session(bind=connection, join_transaction_mode="create_savepoint") as session:
            await asyncio.to_thread(office.app.enqueue_sync, "noop", {"n": 1}, connection=session)
            session.commit()
        assert await office.pokes() == [], "the session has committed; the transaction has not"
        transaction.commit()
    assert await office.pokes() == [NOOP]


# ------------------------------------------------------------- foreign connections


@pytest.mark.contract("C-27")
async def test_a_foreign_transaction_carries_the_poke_itself(office: Office) -> None:
    connection = await asyncpg.connect(office.dsn)
    async with office.another(notify="after_commit") as app:
        async with connection.transaction():
            await app.enqueue("noop", {"n": 1}, connection=connection)
            await app.enqueue("noop", {"n": 2}, connection=connection)
        assert app._producer is not None
        assert not app._producer.pokes._tasks, "nothing is left for the application to send"
    assert await office.ear.all() == [NOOP]
    await connection.close()


@pytest.mark.contract("C-27")
async def test_a_connection_in_autocommit_is_poked_for_after_the_statement(office: Office, told: list[bool]) -> None:
    """The statement is its own transaction, and its commit has been answered."""
    raw = await asyncpg.connect(office.dsn)
    await office.app.enqueue("noop", {"n": 1}, connection=raw)
    assert told == [False]
    assert await office.pokes() == [NOOP]
    await raw.close()

    async with await psycopg.AsyncConnection.connect(office.dsn, autocommit=True) as autocommit:
        await office.app.enqueue("noop", {"n": 2}, connection=autocommit)
        assert await office.pokes() == [NOOP]
        async with autocommit.transaction():
            await office.app.enqueue("noop", {"n": 3}, connection=autocommit)
            assert await office.pokes() == []
        assert await office.pokes() == [NOOP]


@pytest.mark.contract("C-27")
async def test_an_application_that_is_not_open_lets_the_transaction_carry_the_poke(
    office: Office, session: AsyncSession
) -> None:
    closed = declare_types(Penstock(office.dsn))
    await closed.enqueue("noop", {"n": 1}, connection=session)
    assert closed._producer is None, "nothing was opened behind the caller's back"
    await session.commit()

    assert await office.ear.all() == [NOOP]


# ------------------------------------------------------------------- the setting


@pytest.mark.contract("D-71", "C-27")
async def test_notify_off_sends_nothing_over_any_way_in(office: Office, session: AsyncSession) -> None:
    async with office.another(notify="off") as app:
        await app.enqueue("noop", {"n": 1})
        await app.enqueue_many("noop", [{"n": 2}])
        await app.enqueue("noop", {"n": 3}, connection=session)
        await session.commit()
        async with app.transaction() as tx:
            await app.enqueue("noop", {"n": 4}, connection=tx)
        raw = await asyncpg.connect(office.dsn)
        async with raw.transaction():
            await app.enqueue("noop", {"n": 5}, connection=raw)
        await raw.close()
        await asyncio.to_thread(app.enqueue_sync, "noop", {"n": 6})

    assert await office.ear.all() == []
    assert await office.count() == 6


@pytest.mark.contract("D-71")
async def test_the_environment_turns_pokes_off_and_on(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, pokes in (("off", []), ("on", [NOOP]), ("in_transaction", [NOOP])):
        monkeypatch.setenv("PENSTOCK_NOTIFY", value)
        async with office.another() as app:
            await app.enqueue("noop", {"n": 1})
        assert await office.ear.all() == pokes, value


@pytest.mark.contract("C-27", "D-33")
async def test_in_transaction_the_statement_itself_pokes_over_every_way_in(
    office: Office, session: AsyncSession, told: list[bool]
) -> None:
    async with office.another(notify="in_transaction") as app:
        await app.enqueue("noop", {"n": 1})
        await app.enqueue_many("noop", [{"n": 2}])
        await app.enqueue("noop", {"n": 3}, connection=session)
        await session.commit()
        async with app.transaction() as tx:
            await app.enqueue("noop", {"n": 4}, connection=tx)
        with suppress(ZeroDivisionError):
            async with app.transaction() as tx:
                await app.enqueue("noop", {"n": 5}, connection=tx)
                raise ZeroDivisionError

    assert told == [True] * 5
    assert await office.ear.all() == [NOOP] * 4
