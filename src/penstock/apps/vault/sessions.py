"""Connections of the application: sessions of SQLAlchemy for whoever saves, the driver's own for whoever enriches.

Both belong to one event loop and are opened when first asked for.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from penstock.contract.errors import DatabaseUnavailable, PenstockError, SchemaOutdated, StepRefused
from penstock.engine.own_connections import OwnPool
from penstock.store import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy.ext.asyncio import AsyncEngine

    from penstock.engine.app import Penstock

SESSIONS: Final = 10  # open at once; whoever comes later waits
READERS: Final = 4  # connections of a worker, beside the engine's
RECYCLE: Final = 1800.0  # seconds after which a connection is opened anew
_REFUSED_MOVE: Final = "PS001"
_NO_SCHEMA: Final = ("3F000", "42P01", "42883", "42703")


class Connections:
    """Those of one event loop."""

    def __init__(self, app: Penstock) -> None:
        self._app = app
        self._opening = asyncio.Lock()
        self._engine: AsyncEngine | None = None
        self.own = OwnPool(app, size=READERS, name="penstock vault")  # connections of the driver's own

    async def engine(self) -> AsyncEngine:
        """Where sessions come from."""
        async with self._opening:
            if self._engine is None:
                self._engine = make_engine(await self._app.dsn(), prepared=self._app.settings.prepared_statements)
            return self._engine

    async def close(self) -> None:
        """Give all of them back."""
        if self._engine is not None:
            await self._engine.dispose()
        await self.own.close()


def make_engine(dsn: str, *, prepared: bool = True) -> AsyncEngine:
    """Sessions on *dsn*, opened the way of all connections here; no error of it repeats a value (`hide_parameters`)."""

    async def opened(**_: Any) -> Any:
        return await connect.connect(dsn, name="penstock vault", prepared=prepared)

    options: dict[str, Any] = {"async_creator_fn": opened}
    if not prepared:  # behind a pooler a statement with a name would stay in a session that is somebody else's next
        options |= {"prepared_statement_cache_size": 0, "prepared_statement_name_func": str}
    return create_async_engine(
        "postgresql+asyncpg://",
        connect_args=options,
        hide_parameters=True,
        pool_size=SESSIONS,
        max_overflow=0,
        pool_recycle=RECYCLE,
    )


@asynccontextmanager
async def committing(engine: AsyncEngine) -> AsyncIterator[AsyncSession]:
    """A session whose transaction commits at the end of the block.

    What the driver raises is told in words of ours, from where its own text,
    which may hold a row, is no context.
    """
    raised: PenstockError | None = None
    try:
        async with AsyncSession(engine, expire_on_commit=False) as session, session.begin():
            yield session
    except DBAPIError as error:
        raised = explained(error)
    if raised is not None:
        raise raised


def explained(error: DBAPIError) -> PenstockError:
    """What an error of SQLAlchemy means, without its text."""
    cause = getattr(error.orig, "__cause__", None)
    code = str(getattr(cause, "sqlstate", None) or getattr(error.orig, "sqlstate", None) or "none")
    if code in _NO_SCHEMA:
        return SchemaOutdated("the tables of the vault are missing or of another version; run `penstock migrate up`")
    if error.connection_invalidated or isinstance(cause, connect.AWAY):
        return DatabaseUnavailable(
            f"the database went away ({type(cause).__name__}) before it said that it is done; look, then try again"
        )
    if code == _REFUSED_MOVE:
        return StepRefused("the item has moved on meanwhile; look at it again")
    return PenstockError(f"the database refused it with SQLSTATE {code}; the server's log says more")
