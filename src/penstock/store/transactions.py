"""A transaction on whatever a caller has: a pool, a connection, or a transaction already."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.store.claims import Db, Transaction


@asynccontextmanager
async def transaction(db: Db) -> AsyncIterator[Transaction]:
    """Begin and commit; inside a caller's transaction it is a savepoint, and the caller commits."""
    if isinstance(db, asyncpg.Pool):
        async with db.acquire() as connection, connection.transaction():
            yield connection
    else:
        async with db.transaction():
            yield db


def begun(db: Db) -> bool:
    """Whether *db* stands inside a transaction already."""
    return not isinstance(db, asyncpg.Pool) and db.is_in_transaction()
