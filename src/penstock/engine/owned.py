"""Transactions that the engine itself commits, so that it can tell what waits for the commit.

`app.transaction()` and `job.transaction()` are such. A poke for a job that was
enqueued in one is sent after the COMMIT has been answered; a rollback drops it.
A savepoint inside is not looked at: a job that was rolled back to it may leave
a poke behind, which wakes a worker for nothing and does no harm.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from penstock.engine.patience import uninterrupted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from penstock.store.claims import Transaction


class Owned:
    """One open transaction and what is to be done once it has committed."""

    def __init__(self, connection: Transaction, owner: object) -> None:
        self.connection = connection
        self.owner = owner
        self.task = asyncio.current_task()
        self.after: list[Callable[[], None]] = []


_OPEN: dict[int, Owned] = {}
_CURRENT: ContextVar[Owned | None] = ContextVar("penstock_transaction", default=None)


@asynccontextmanager
async def owned(connection: Transaction, owner: object = None) -> AsyncIterator[None]:
    """Wrap the block that holds the transaction of *connection*; what waits is done after it, if it did not raise."""
    transaction = Owned(connection, owner)
    before = _CURRENT.get()
    _OPEN[id(connection)] = transaction
    _CURRENT.set(transaction)
    try:
        yield
    finally:
        del _OPEN[id(connection)]
        _CURRENT.set(before)
    for call in transaction.after:
        call()


@asynccontextmanager
async def begun(connection: Transaction) -> AsyncIterator[None]:
    """A transaction around the block whose COMMIT is never cancelled (rule 7 of the fault list)."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the error that ended the block is the one to tell
            await transaction.rollback()
        raise
    await uninterrupted(transaction.commit())


def open_on(connection: Any) -> Owned | None:
    """The engine's transaction that is open on *connection*."""
    return _OPEN.get(id(connection))


def current(owner: object) -> Transaction | None:
    """The connection of the transaction of *owner* that this very task is in.

    A task started inside the block is not in it: two tasks cannot use one
    connection at a time.
    """
    transaction = _CURRENT.get()
    while_open = transaction is not None and _OPEN.get(id(transaction.connection)) is transaction
    if transaction is None or not while_open or transaction.owner is not owner:
        return None
    return transaction.connection if transaction.task is asyncio.current_task() else None
