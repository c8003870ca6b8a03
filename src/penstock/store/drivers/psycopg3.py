"""psycopg 3 connections of callers, sync and async."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from penstock.store.drivers.kinds import Commits, Voice
from penstock.store.drivers.placeholders import for_psycopg, named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager


def is_connection(connection: Any) -> bool:
    """Whether this is a sync connection of psycopg 3."""
    return isinstance(connection, Connection)


def is_async_connection(connection: Any) -> bool:
    """Whether this is an async connection of psycopg 3."""
    return isinstance(connection, AsyncConnection)


class Psycopg:
    """A sync connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    @property
    def commits(self) -> Commits:
        """See `_commits`."""
        return _commits(self._connection)

    def row(self, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run one statement."""
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(for_psycopg(name).encode(), named(arguments)).fetchone()
        assert row is not None  # noqa: S101 - a function with OUT parameters returns one row
        return row

    def savepoint(self) -> AbstractContextManager[Any]:
        """A savepoint, or a transaction where none is open."""
        return self._connection.transaction()

    def after_commit(self, call: Callable[[Voice | None], None]) -> None:
        """Nothing in psycopg tells of a commit."""
        raise NotImplementedError


class AsyncPsycopg:
    """An async connection."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection

    @property
    def commits(self) -> Commits:
        """See `_commits`."""
        return _commits(self._connection)

    async def row(self, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run one statement."""
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(for_psycopg(name).encode(), named(arguments))
            row = await cursor.fetchone()
        assert row is not None  # noqa: S101 - a function with OUT parameters returns one row
        return row

    def savepoint(self) -> AbstractAsyncContextManager[Any]:
        """A savepoint, or a transaction where none is open."""
        return self._connection.transaction()

    def after_commit(self, call: Callable[[Voice | None], None]) -> None:
        """Nothing in psycopg tells of a commit."""
        raise NotImplementedError


def _commits(connection: Connection[Any] | AsyncConnection[Any]) -> Commits:
    """Unseen, unless the connection is in autocommit and outside every transaction block."""
    if getattr(connection, "_tpc", None) is not None:  # what tpc_begin() has begun; the driver tells it to nobody
        return Commits.PREPARED
    idle = connection.info.transaction_status == TransactionStatus.IDLE
    return Commits.AT_ONCE if connection.autocommit and idle else Commits.UNSEEN
