"""The lock of a unit while its single call is under way (A-39, L-46, C-30).

A claim and a hand-over take the lock inside their own transactions, which the
database does by itself. A call to a provider has no transaction: its lock is
one of the session of one connection that this process keeps for nothing else.
Session locks can be taken twice by one session, so a set of the units in hand
keeps two tasks of this process apart. The key holds no home: two units of one
home never wait for each other (A-59).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import Failed, Snooze
from penstock.contract.failures import FailureClass
from penstock.engine.patience import uninterrupted
from penstock.store import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from uuid import UUID

    from penstock.store.connect import Connection

    Unit = tuple[UUID, UUID]  # rewrite_request_id, recipient_user_id

BUSY: Final = timedelta(seconds=60)  # a unit that somebody else has in hand comes back after this, uncharged (C-26)
TAKE: Final = "select pg_try_advisory_lock(rewrite.unit_lock($1, $2))"
GIVE: Final = "select pg_advisory_unlock(rewrite.unit_lock($1, $2))"
ANSWER_WITHIN: Final = 10.0  # seconds; a lock is tried for, never waited for
LOST: Final = "the connection that held the lock of the unit was lost"


@dataclass(slots=True, eq=False)
class _Held:
    """One unit in hand: the task that works on it and the connection that protects it."""

    task: asyncio.Task[object]
    connection: Connection
    working: bool = True
    lost: bool = False


class UnitLocks:
    """The units that this process has in hand, in one event loop."""

    def __init__(self, dsn: Callable[[], Awaitable[str]]) -> None:
        self._dsn = dsn
        self._units: set[Unit] = set()
        self._held: set[_Held] = set()
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()  # one statement at a time on one connection

    @asynccontextmanager
    async def held(self, unit: Unit) -> AsyncIterator[None]:
        """Have *unit* for the length of the block.

        Whoever comes second gets `Snooze`: its job waits a minute, and no
        attempt is used. When the connection is lost the lock is gone with it,
        so the block is cancelled and ends as a failed attempt: its call may
        have been paid for.
        """
        if unit in self._units:
            raise Snooze(BUSY)
        self._units.add(unit)
        try:
            async with self._locked(unit):
                yield
        finally:
            self._units.discard(unit)

    async def close(self) -> None:
        """Give the connection back; the locks go with it."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            await connection.close()

    @asynccontextmanager
    async def _locked(self, unit: Unit) -> AsyncIterator[None]:
        entry = await self._taken(unit)
        before = entry.task.cancelling()
        self._held.add(entry)
        try:
            try:
                yield
            finally:
                entry.working = False  # from here on a loss cancels nobody
                await uninterrupted(self._give(unit, entry))
        except asyncio.CancelledError:
            if entry.lost and entry.task.uncancel() <= before:
                raise Failed(FailureClass.NETWORK_RESET, LOST) from None
            raise

    async def _taken(self, unit: Unit) -> _Held:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine always runs in one
        async with self._turn:
            try:
                connection = await self._connected()
                taken = await connection.fetchval(TAKE, *unit, timeout=ANSWER_WITHIN)
            except connect.AWAY:
                self._drop()
                raise Snooze(BUSY) from None
            except BaseException:
                self._drop()  # nobody knows whether it has the lock
                raise
        if not taken:
            raise Snooze(BUSY)
        return _Held(task, connection)

    async def _give(self, unit: Unit, entry: _Held) -> None:
        self._held.discard(entry)
        async with self._turn:
            if entry.connection.is_closed():
                return
            try:
                await entry.connection.fetchval(GIVE, *unit, timeout=ANSWER_WITHIN)
            except connect.AWAY:
                entry.connection.terminate()  # a lock that nobody gives back would bar its unit for ever

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect.connect(await self._dsn(), name="penstock rewrite locks")
            self._connection.add_termination_listener(self._on_loss)
        return self._connection

    def _drop(self) -> None:
        """Cut the connection: every lock that it may have is free again."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.terminate()

    def _on_loss(self, connection: object) -> None:
        """Nothing protects the calls under way any more: end them."""
        for entry in self._held:
            if entry.connection is connection and entry.working and not entry.lost:
                entry.lost = True
                entry.task.cancel(LOST)
