"""asyncpg connections of callers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from penstock.store.drivers.kinds import Commits, Voice
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from penstock.store.claims import Transaction


def is_connection(connection: Any) -> bool:
    """Whether this is a connection of asyncpg, from a pool or not."""
    return isinstance(connection, asyncpg.Connection | PoolConnectionProxy)


class Native:
    """A connection of asyncpg."""

    def __init__(self, connection: Transaction) -> None:
        self._connection = connection

    @property
    def commits(self) -> Commits:
        """Unseen, once a transaction is open."""
        return Commits.UNSEEN if self._connection.is_in_transaction() else Commits.AT_ONCE

    async def row(self, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run one statement."""
        row = await self._connection.fetchrow(sql(name), *arguments)
        assert row is not None  # noqa: S101 - a function with OUT parameters returns one row
        return tuple(row)

    def savepoint(self) -> AbstractAsyncContextManager[Any]:
        """A savepoint, or a transaction where none is open."""
        return self._connection.transaction()

    def after_commit(self, call: Callable[[Voice | None], None]) -> None:
        """Nothing in asyncpg tells of a commit."""
        raise NotImplementedError
