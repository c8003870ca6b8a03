"""SQLAlchemy sessions and connections of callers, whatever driver they run on.

An AsyncSession and an AsyncConnection are a sync one behind a greenlet, so
there is one implementation, and the async face steps over with `run_sync`.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from sqlalchemy import Connection, text
from sqlalchemy.engine import TwoPhaseTransaction
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from penstock.contract.errors import EnqueueRefused
from penstock.store.drivers import native, sessions
from penstock.store.drivers.kinds import Commits, Voice
from penstock.store.drivers.placeholders import for_sqlalchemy, named

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractContextManager

PATIENCE: Final = 1.0  # seconds for a statement after a commit


class CoreCaller:
    """A Connection: its `commit` event comes before the COMMIT, so its commits are unseen."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def commits(self) -> Commits:
        """Unseen, in one phase or in two."""
        return Commits.PREPARED if _in_two_phases(self._connection) else Commits.UNSEEN

    def row(self, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run one statement."""
        return _row(self._connection, name, arguments)

    def savepoint(self) -> AbstractContextManager[Any]:
        """A savepoint; where nothing has begun yet, the transaction begins first."""
        return _savepoint(self._connection)

    def after_commit(self, call: Callable[[Voice | None], None]) -> None:
        """Its hook comes too early to be of use."""
        raise NotImplementedError


class SessionCaller:
    """A Session. One that was bound to a Connection does not commit its transaction, so nobody sees that."""

    def __init__(self, session: Session, *, aloud: bool = False) -> None:
        self._session = session
        self._aloud = aloud  # it is behind an AsyncSession, whose hooks may ask the server something
        self._connection: Connection | None = None  # the one that ran a statement

    @property
    def commits(self) -> Commits:
        """Seen, unless the transaction is that of a Connection."""
        bound, twophase = self._session.bind, self._session.twophase
        if not isinstance(bound, Connection):
            return Commits.SEEN_PREPARED if twophase else Commits.SEEN
        begins = twophase and not bound.in_transaction()
        return Commits.PREPARED if begins or _in_two_phases(bound) else Commits.UNSEEN

    def row(self, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run one statement in the session's transaction, which begins if it has not."""
        self._connection = self._session.connection()
        return _row(self._connection, name, arguments)

    def savepoint(self) -> AbstractContextManager[Any]:
        """A savepoint below the session's notice: nothing is flushed and nothing expires."""
        return _savepoint(self._session.connection())

    def after_commit(self, call: Callable[[Voice | None], None]) -> None:
        """Once the root transaction has committed."""
        voice = self._voice() if self._aloud else None
        sessions.after_commit(self._session, lambda: call(voice))

    def _voice(self) -> Voice | None:
        """The driver's own connection, which belongs to the session until its hooks have run; asyncpg's alone.

        The other drivers begin a transaction for whatever they run.
        """
        if self._connection is None:
            return None
        found: Any = self._connection.connection.dbapi_connection
        driver = getattr(found, "driver_connection", None)
        if not native.is_connection(driver):
            return None
        return lambda statement: _said(found, driver, statement)


class Bridged:
    """The async face of a sync caller."""

    def __init__(self, target: AsyncSession | AsyncConnection, caller: SessionCaller | CoreCaller) -> None:
        self._target = target
        self._caller = caller

    @property
    def commits(self) -> Commits:
        """Those of the sync caller."""
        return self._caller.commits

    async def row(self, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
        """Run one statement."""
        return await self._target.run_sync(lambda _: self._caller.row(name, arguments))

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """The sync caller's savepoint."""
        nested: AbstractContextManager[Any] = await self._target.run_sync(lambda _: self._caller.savepoint())
        await self._target.run_sync(lambda _: nested.__enter__())
        try:
            yield
        except BaseException:
            problem = sys.exc_info()
            await self._target.run_sync(lambda _: nested.__exit__(*problem))
            raise
        await self._target.run_sync(lambda _: nested.__exit__(None, None, None))

    def after_commit(self, call: Callable[[Voice | None], None]) -> None:
        """Once the root transaction has committed."""
        self._caller.after_commit(call)


def recognise(connection: Any) -> SessionCaller | CoreCaller | None:
    """The adapter for a Session, a scoped_session or a Connection."""
    if isinstance(connection, scoped_session):
        connection = connection()
    if isinstance(connection, Session):
        return SessionCaller(connection)
    return CoreCaller(connection) if isinstance(connection, Connection) else None


def recognise_async(connection: Any) -> Bridged | None:
    """The adapter for an AsyncSession, an async_scoped_session or an AsyncConnection."""
    if isinstance(connection, async_scoped_session):
        connection = connection()
    if isinstance(connection, AsyncSession):
        return Bridged(connection, SessionCaller(connection.sync_session, aloud=True))
    if isinstance(connection, AsyncConnection):
        return Bridged(connection, CoreCaller(connection.sync_connection)) if connection.sync_connection else None
    return None


def _savepoint(connection: Connection) -> AbstractContextManager[Any]:
    """A savepoint, which there is only in a transaction; SQLAlchemy believes in one that AUTOCOMMIT does not begin."""
    if getattr(connection.connection.dbapi_connection, "autocommit", False) is True:
        raise EnqueueRefused(
            "this connection is in AUTOCOMMIT, where a bulk would not be all or none; pass one that is in a "
            "transaction, or leave `connection` out"
        )
    return connection.begin_nested()


def _in_two_phases(connection: Connection) -> bool:
    return isinstance(connection.get_transaction(), TwoPhaseTransaction)


def _said(adapted: Any, driver: Any, statement: str) -> bool:
    """Run *statement*, which is in nobody's transaction; what was committed before stands, so nothing is raised."""
    try:
        if driver.is_closed() or driver.is_in_transaction():
            return False
        adapted.run_async(lambda own: own.execute(statement, timeout=PATIENCE))
    except Exception:  # the driver's, or there is no event loop here
        return False
    return True


def _row(connection: Connection, name: str, arguments: Sequence[Any]) -> Sequence[Any]:
    return connection.execute(text(for_sqlalchemy(name)), named([_plain(value) for value in arguments])).one()


def _plain(value: Any) -> Any:
    """Ids as text, which every driver below SQLAlchemy takes."""
    if isinstance(value, UUID):
        return str(value)
    return [str(one) if isinstance(one, UUID) else one for one in value] if isinstance(value, list) else value
