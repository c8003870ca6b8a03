"""The owner's look at the database of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg

from penstock import Penstock


def owner_of(app: Penstock) -> asyncpg.Connection[Any]:
    """A connection for single statements: the one that *app*, logged in as the owner, has at hand.

    One of the test's own costs 8 ms of processor time, more than all that most
    tests ask of it. A test that begins a transaction or listens opens its own.
    """
    return cast("asyncpg.Connection[Any]", _Borrowed(app))


class _Borrowed:
    def __init__(self, app: Penstock) -> None:
        self._app = app

    async def execute(self, query: str, *arguments: Any) -> str:
        async with self._connection() as db:
            said: str = await db.execute(query, *arguments)
            return said

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        async with self._connection() as db:
            rows: list[asyncpg.Record] = await db.fetch(query, *arguments)
            return rows

    async def fetchrow(self, query: str, *arguments: Any) -> asyncpg.Record | None:
        async with self._connection() as db:
            row: asyncpg.Record | None = await db.fetchrow(query, *arguments)
            return row

    async def fetchval(self, query: str, *arguments: Any) -> Any:
        async with self._connection() as db:
            return await db.fetchval(query, *arguments)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        producer = await self._app._open_producer()
        async with producer.connection() as connection:
            yield connection
