"""Transactions in two phases: a job enqueued in one does not keep it from being prepared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from penstock import Penstock
from penstock.settings import Notify
from tests.engine.enqueue.callers import alchemy_url
from tests.engine.enqueue.conftest import declare_types
from tests.support.servers import PrivateServer

PREPARES = "alter system set max_prepared_transactions = 5"


@pytest.fixture
def dsn(server: PrivateServer) -> str:
    """A server that prepares transactions; usual ones do not."""
    with psycopg.connect(server.superuser_dsn, autocommit=True) as connection:
        connection.execute(PREPARES)
    server.stop()
    server.start()
    return server.dsn


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    engine = create_engine(alchemy_url(dsn, "psycopg"), poolclass=NullPool)
    yield engine
    engine.dispose()


def opened(dsn: str, notify: Notify) -> Penstock:
    app = declare_types(Penstock(dsn, notify=notify))

    async def sync_types() -> None:
        async with app:
            await app.sync_types()

    asyncio.run(sync_types())
    return app


def by_psycopg(app: Penstock, dsn: str, _engine: Engine) -> None:
    with psycopg.connect(dsn) as connection:
        connection.tpc_begin(connection.xid(1, "global", "branch"))
        enqueue_some(app, connection)
        connection.tpc_prepare()
        connection.tpc_commit()


def by_async_psycopg(app: Penstock, dsn: str, _engine: Engine) -> None:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await connection.tpc_begin(connection.xid(1, "global", "branch"))
            await app.enqueue("noop", {"n": 1}, connection=connection)
            await app.enqueue_many("noop", [{"n": 2}, {"n": 3}], connection=connection)
            await connection.tpc_prepare()
            await connection.tpc_commit()

    asyncio.run(run())


def by_connection(app: Penstock, _dsn: str, engine: Engine) -> None:
    with engine.connect() as connection:
        transaction = connection.begin_twophase()
        enqueue_some(app, connection)
        transaction.prepare()
        transaction.commit()


def by_session(app: Penstock, _dsn: str, engine: Engine) -> None:
    with Session(engine, twophase=True) as session:
        enqueue_some(app, session)
        session.commit()


def by_session_on_a_connection(app: Penstock, _dsn: str, engine: Engine) -> None:
    with engine.connect() as connection, Session(connection, twophase=True) as session:
        enqueue_some(app, session)
        session.commit()


def by_session_in_a_transaction_of_a_connection(app: Penstock, _dsn: str, engine: Engine) -> None:
    with engine.connect() as connection:
        transaction = connection.begin_twophase()
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            enqueue_some(app, session)
            session.commit()
        transaction.prepare()
        transaction.commit()


def enqueue_some(app: Penstock, connection: Any) -> None:
    app.enqueue_sync("noop", {"n": 1}, connection=connection)
    app.enqueue_many_sync("noop", [{"n": 2}, {"n": 3}], connection=connection)


EVERY_WAY: tuple[Callable[[Penstock, str, Engine], None], ...] = (
    by_psycopg,
    by_async_psycopg,
    by_connection,
    by_session,
    by_session_on_a_connection,
    by_session_in_a_transaction_of_a_connection,
)


@pytest.mark.contract("C-27", "D-08")
def test_a_transaction_with_jobs_in_it_can_be_prepared(dsn: str, engine: Engine) -> None:
    for notify in (Notify.AFTER_COMMIT, Notify.IN_TRANSACTION):
        app = opened(dsn, notify)
        for way in EVERY_WAY:
            with psycopg.connect(dsn, autocommit=True) as owner:
                owner.execute("truncate penstock.jobs")
                way(app, dsn, engine)
                assert owner.execute("select count(*) from penstock.jobs").fetchone() == (3,), (way, notify)
        app.close_sync()


@pytest.mark.contract("C-27")
def test_a_session_in_two_phases_pokes_once_it_has_committed(dsn: str, engine: Engine) -> None:
    app = opened(dsn, Notify.AFTER_COMMIT)
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("listen penstock_jobs")
        by_session(app, dsn, engine)
        app.close_sync()
        assert [poke.channel for poke in owner.notifies(timeout=10, stop_after=1)] == ["penstock_jobs"]
