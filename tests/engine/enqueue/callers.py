"""One way to enqueue per driver: each opens a connection of the caller's own and gives it to a piece of work.

A caller commits when the work returns and rolls back when it raises. The sync
ones run in a thread, as they would in a sync program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from penstock import Penstock

Work = Callable[["Caller"], Awaitable[Any]]


class Caller:
    """A connection in a transaction, and how this kind of connection is used."""

    def __init__(self, app: Penstock, connection: Any, execute: Callable[[str], Any], *, sync: bool) -> None:
        self.app = app
        self.connection = connection
        self.sync = sync
        self._execute = execute

    async def enqueue(self, job_type: str, payload: Any = None, **options: Any) -> Any:
        if self.sync:
            return await self._threaded(
                lambda: self.app.enqueue_sync(job_type, payload, connection=self.connection, **options)
            )
        return await self.app.enqueue(job_type, payload, connection=self.connection, **options)

    async def enqueue_many(self, job_type: str, payloads: Any, **options: Any) -> Any:
        if self.sync:
            return await self._threaded(
                lambda: self.app.enqueue_many_sync(job_type, payloads, connection=self.connection, **options)
            )
        return await self.app.enqueue_many(job_type, payloads, connection=self.connection, **options)

    async def execute(self, statement: str) -> None:
        """Something of the caller's own."""
        if self.sync:
            await self._threaded(lambda: self._execute(statement))
        else:
            await self._execute(statement)

    async def _threaded(self, call: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(call)


async def by_asyncpg(app: Penstock, dsn: str, work: Work) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            return await work(Caller(app, connection, connection.execute, sync=False))
    finally:
        await connection.close()


async def by_psycopg_async(app: Penstock, dsn: str, work: Work) -> Any:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        return await work(Caller(app, connection, lambda s: connection.execute(s.encode()), sync=False))


async def by_async_session(app: Penstock, dsn: str, work: Work) -> Any:
    engine = create_async_engine(alchemy_url(dsn, "asyncpg"), poolclass=NullPool)
    try:
        async with AsyncSession(engine) as session, session.begin():
            return await work(Caller(app, session, lambda s: session.execute(text(s)), sync=False))
    finally:
        await engine.dispose()


async def by_async_connection(app: Penstock, dsn: str, work: Work) -> Any:
    engine = create_async_engine(alchemy_url(dsn, "asyncpg"), poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            return await work(Caller(app, connection, lambda s: connection.execute(text(s)), sync=False))
    finally:
        await engine.dispose()


async def by_async_session_on_psycopg(app: Penstock, dsn: str, work: Work) -> Any:
    engine = create_async_engine(alchemy_url(dsn, "psycopg"), poolclass=NullPool)
    try:
        async with AsyncSession(engine) as session, session.begin():
            return await work(Caller(app, session, lambda s: session.execute(text(s)), sync=False))
    finally:
        await engine.dispose()


async def by_psycopg(app: Penstock, dsn: str, work: Work) -> Any:
    with psycopg.connect(dsn) as connection:
        return await work(Caller(app, connection, lambda s: connection.execute(s.encode()), sync=True))


async def by_session(app: Penstock, dsn: str, work: Work) -> Any:
    engine = create_engine(alchemy_url(dsn, "psycopg"), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        return await work(Caller(app, session, lambda s: session.execute(text(s)), sync=True))


async def by_connection(app: Penstock, dsn: str, work: Work) -> Any:
    engine = create_engine(alchemy_url(dsn, "psycopg"), poolclass=NullPool)
    with engine.begin() as connection:
        return await work(Caller(app, connection, lambda s: connection.execute(text(s)), sync=True))


EVERY_CALLER = (
    by_asyncpg,
    by_psycopg_async,
    by_async_session,
    by_async_session_on_psycopg,
    by_async_connection,
    by_psycopg,
    by_session,
    by_connection,
)


def alchemy_url(dsn: str, driver: str) -> str:
    """The DSN as SQLAlchemy spells it."""
    return dsn.replace("postgresql://", f"postgresql+{driver}://", 1)
