"""Schema versions, up and down, with Alembic: `penstock migrate`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from penstock.contract.errors import DatabaseUnavailable
from penstock.store.connect import unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from sqlalchemy import Connection

LOCK_TIMEOUT = "5s"  # a migration that cannot get its locks gives up and changes nothing
LOCK = "select pg_advisory_xact_lock(hashtext('penstock.migrate'))"


@dataclass(frozen=True)
class SchemaState:
    """Where a database stands."""

    current: str | None
    head: str

    @property
    def up_to_date(self) -> bool:
        """Whether this code and the schema fit."""
        return self.current == self.head


def upgrade(dsn: str, revision: str = "head") -> None:
    """Bring the schema up to *revision*, all or nothing."""
    _run(dsn, lambda config: command.upgrade(config, revision))


def downgrade(dsn: str, revision: str) -> None:
    """Take the schema down to *revision*, all or nothing; `base` removes it."""
    _run(dsn, lambda config: command.downgrade(config, revision))


def upgrade_sql(output: TextIO, revision: str = "head") -> None:
    """Write the SQL of the way up to *output*; no database is asked."""
    config = _config()
    config.attributes["output"] = output
    command.upgrade(config, revision, sql=True)


def downgrade_sql(output: TextIO, span: str) -> None:
    """Write the SQL of the way down; *span* is `<from>:<to>`, as no database is asked."""
    config = _config()
    config.attributes["output"] = output
    command.downgrade(config, span, sql=True)


def status(dsn: str) -> SchemaState:
    """Compare the schema with this code."""
    return asyncio.run(state(dsn))


async def state(dsn: str) -> SchemaState:
    """The same, for callers that have an event loop."""
    try:
        connection = await asyncpg.connect(dsn, timeout=10)
    except Exception as error:
        raise unavailable(error, dsn) from None
    try:
        return await state_of(connection)
    finally:
        await connection.close()


async def state_of(connection: asyncpg.Connection[Any]) -> SchemaState:
    """The state as *connection* sees it."""
    there = await connection.fetchval("select to_regclass('penstock.schema_version') is not null")
    current = await connection.fetchval("select version_num from penstock.schema_version") if there else None
    return SchemaState(current=current, head=head())


def head() -> str:
    """The version that this code needs."""
    found = ScriptDirectory.from_config(_config()).get_current_head()
    if found is None:
        raise DatabaseUnavailable("this installation of Penstock holds no migrations; install it again")
    return found


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def _run(dsn: str, step: Callable[[Config], None]) -> None:
    asyncio.run(_migrate(dsn, step))


async def _migrate(dsn: str, step: Callable[[Config], None]) -> None:
    engine = create_async_engine(_sqlalchemy_url(dsn), poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.exec_driver_sql(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
            await connection.exec_driver_sql(LOCK)
            await connection.run_sync(_step, step)
    except (OSError, asyncpg.PostgresConnectionError, asyncpg.InvalidAuthorizationSpecificationError) as error:
        raise unavailable(error, dsn) from None
    finally:
        await engine.dispose()


def _step(connection: Connection, step: Callable[[Config], None]) -> None:
    config = _config()
    config.attributes["connection"] = connection
    step(config)


def _sqlalchemy_url(dsn: str) -> str:
    parts = urlsplit(dsn)
    return urlunsplit(parts._replace(scheme="postgresql+asyncpg"))
