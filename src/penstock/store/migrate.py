"""Schema versions, up and down, with Alembic: `penstock migrate`.

A *line* is one history of versions: a folder of revisions, and a schema that
holds its objects and its own version table. The engine is the first line; an
application brings its own as an entry point of the group `penstock.migrations`
and never touches the engine's. All lines go up in one transaction, so that an
interrupted migration leaves every one of them as it was.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from penstock.contract.errors import DatabaseUnavailable, MigrationFailed, SchemaOutdated
from penstock.store import schema
from penstock.store.connect import unavailable
from penstock.store.hosts import opened
from penstock.store.lines import ENGINE, Line, lines
from penstock.store.migrations.guard import BASE, TAKE_TURN, guard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection

__all__ = ["ENGINE", "Line", "SchemaState", "downgrade", "downgrade_sql", "lines", "upgrade", "upgrade_sql"]

OLDEST_SERVER: Final = 15
LOCK_TIMEOUT: Final = 5.0  # seconds; a migration that cannot get its locks gives up and changes nothing
TURN: Final = 60.0  # seconds to wait for another migrator, which holds the lock below


@dataclass(frozen=True)
class SchemaState:
    """Where a database stands with one line."""

    current: str | None
    head: str
    line: str = ENGINE.name
    known: tuple[str, ...] = ()

    @property
    def up_to_date(self) -> bool:
        """Whether this code and the schema fit."""
        return self.current == self.head

    @property
    def newer(self) -> bool:
        """Whether the schema was made by a Penstock that is newer than this one."""
        return self.current is not None and self.current not in self.known

    @property
    def pending(self) -> tuple[str, ...]:
        """The versions that `up` would apply, in order."""
        if self.newer:
            return ()
        return self.known if self.current is None else self.known[self.known.index(self.current) + 1 :]


def upgrade(
    dsn: str, revision: str = "head", *, to: Sequence[Line] = (ENGINE,), lock_timeout: float = LOCK_TIMEOUT
) -> None:
    """Bring the lines *to* up to *revision*, all or nothing."""
    asyncio.run(_migrate(dsn, [_Step(line, "up", revision) for line in to], lock_timeout))


def downgrade(dsn: str, revision: str, *, of: Sequence[Line] = (ENGINE,), lock_timeout: float = LOCK_TIMEOUT) -> None:
    """Take the lines *of* down to *revision*, the last one first, all or nothing; `base` removes them."""
    asyncio.run(_migrate(dsn, [_Step(line, "down", revision) for line in reversed(of)], lock_timeout))


def upgrade_sql(output: TextIO, span: str = "head", *, to: Sequence[Line] = (ENGINE,)) -> None:
    """Write the SQL of the way up to *output*; no database is asked.

    *span* is `<from>:<to>`, or the version to reach from nothing. The script
    is one transaction and refuses a database that is not at `<from>`.
    """
    _write(output, [_Step(line, "up", span) for line in to])


def downgrade_sql(output: TextIO, span: str, *, of: Sequence[Line] = (ENGINE,)) -> None:
    """Write the SQL of the way down, the last line first; *span* without `<from>` begins at the newest version."""
    _write(output, [_Step(line, "down", span) for line in reversed(of)])


def status(dsn: str, of: Sequence[Line] = (ENGINE,)) -> list[SchemaState]:
    """Compare the schemas with this code, line by line."""
    return asyncio.run(states(dsn, of))


async def states(dsn: str, of: Sequence[Line] = (ENGINE,)) -> list[SchemaState]:
    """The same, for callers that have an event loop."""
    connection = await _connect(dsn)
    try:
        return [await state_of(connection, line) for line in of]
    finally:
        await connection.close()


async def state_of(connection: asyncpg.Connection[Any], line: Line = ENGINE) -> SchemaState:
    """The state of one line as *connection* sees it."""
    current = await schema.version(connection, line)
    known = versions(line)
    return SchemaState(current=current, head=known[-1], line=line.name, known=known)


def versions(line: Line = ENGINE) -> tuple[str, ...]:
    """The versions of *line* that this code brings, oldest first."""
    revisions = ScriptDirectory.from_config(_config(line)).walk_revisions()
    found = tuple(str(revision.revision) for revision in revisions)[::-1]
    if not found:
        raise MigrationFailed(f"the line {line.name} holds no migrations; install its package again")
    return found


def head() -> str:
    """The version of the engine that this code needs."""
    return versions()[-1]


# ------------------------------------------------------------------- one step


@dataclass(frozen=True)
class _Step:
    line: Line
    way: str
    revision: str


def _config(line: Line, *, connection: Connection | None = None, output: TextIO | None = None) -> Config:
    config = Config()
    for name, value in (
        ("script_location", str(Path(__file__).parent / "migrations")),
        ("path_separator", "newline"),
        ("version_locations", str(line.versions)),
    ):
        config.set_main_option(name, value.replace("%", "%%"))
    config.attributes.update(connection=connection, output=output, schema=line.schema)
    return config


def _command(config: Config, way: str, revision: str, *, sql: bool = False) -> None:
    try:
        (command.upgrade if way == "up" else command.downgrade)(config, revision, sql=sql)
    except CommandError as error:
        raise MigrationFailed(f"{error}; `penstock migrate status` shows the versions that there are") from None


def _write(output: TextIO, steps: Sequence[_Step]) -> None:
    ways = [(step.line, step.way, *_ends(step)) for step in steps]
    output.write(f"begin;\n\n{TAKE_TURN}\n")
    output.writelines(guard(*way) for way in ways)  # all before the first change: a late refusal is hard to read
    for line, way, start, end in ways:
        _command(_config(line, output=output), way, f"{start}:{end}", sql=True)
    output.write("commit;\n")


def _ends(step: _Step) -> tuple[str, str]:
    """The version at which a script begins and the one at which it ends, both by their names."""
    known = versions(step.line)
    start, colon, end = step.revision.rpartition(":")
    if not colon:
        start = BASE if step.way == "up" else known[-1]
    named = [known[-1] if name == "head" else name for name in (start, end)]
    for name in named:
        if name not in (BASE, *known):
            raise MigrationFailed(f"{step.line.name} has no version {name!r}; it has {', '.join((BASE, *known))}")
    places = [known.index(name) if name in known else -1 for name in named]
    if (places[0] < places[1]) != (step.way == "up") or places[0] == places[1]:
        raise MigrationFailed(
            f"there is nothing {step.way} from {named[0]} to {named[1]} of {step.line.name}; name both ends as "
            f"FROM:TO, out of {', '.join((BASE, *known))}"
        )
    return named[0], named[1]


async def _migrate(dsn: str, steps: Sequence[_Step], lock_timeout: float) -> None:
    engine = create_async_engine("postgresql+asyncpg://", connect_args=_once(dsn), poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            await _refuse_old_server(connection)
            await connection.exec_driver_sql(f"set local lock_timeout = {round(TURN * 1000)}")
            await connection.exec_driver_sql(TAKE_TURN)
            await connection.exec_driver_sql(f"set local lock_timeout = {max(1, round(lock_timeout * 1000))}")
            for step in steps:
                await connection.run_sync(_take, step)
            await connection.commit()
    except (DBAPIError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise _explained(error, dsn) from None
    finally:
        await engine.dispose()


def _once(dsn: str) -> dict[str, Any]:
    """How SQLAlchemy connects: no statement is kept under a name, which a pooler would leave to its next client."""

    async def opened(**_: Any) -> asyncpg.Connection[Any]:
        return await _connect(dsn)

    return {"async_creator_fn": opened, "prepared_statement_cache_size": 0, "prepared_statement_name_func": str}


async def _connect(dsn: str) -> asyncpg.Connection[Any]:
    # The driver reads the DSN itself, so that it means the same here and everywhere else.
    name = {"application_name": "penstock migrate"}
    try:
        return await opened(dsn, timeout=10, server_settings=name, statement_cache_size=0)
    except Exception as error:
        raise unavailable(error, dsn) from None


def _take(connection: Connection, step: _Step) -> None:
    _command(_config(step.line, connection=connection), step.way, step.revision)


async def _refuse_old_server(connection: AsyncConnection) -> None:
    number = int((await connection.exec_driver_sql("show server_version_num")).scalar_one())
    if number < OLDEST_SERVER * 10_000:
        raise DatabaseUnavailable(
            f"this server is PostgreSQL {number // 10_000}; Penstock needs {OLDEST_SERVER} or newer"
        )


def _explained(error: Exception, dsn: str) -> Exception:
    """What went wrong, in words that say what to do; nothing was changed."""
    cause = _cause(error)
    match cause:
        case asyncpg.LockNotAvailableError():
            why = "another session holds a lock on what the migration must change; end long transactions "
            why += "(`penstock doctor` names them) and run it again"
        case asyncpg.InsufficientPrivilegeError():
            why = f"{cause}; run it as the owner of the schema, or let a superuser give CREATE on the database"
        case asyncpg.UndefinedTableError() | asyncpg.UndefinedObjectError() | asyncpg.UndefinedFunctionError():
            return SchemaOutdated(f"the schema is not what its version says ({cause}); nothing was changed")
        case asyncpg.PostgresConnectionError() | asyncpg.OperatorInterventionError() | asyncpg.InterfaceError() | None:
            return unavailable(cause or error, dsn)
        case _:
            why = f"the server refused a statement: {cause}"
    return MigrationFailed(f"nothing was changed: {why}")


def _cause(error: Exception) -> BaseException | None:
    """What the driver said, to SQLAlchemy or to a script that was sent past it."""
    if not isinstance(error, DBAPIError):
        return error
    return error.orig.__cause__ if error.orig is not None else None
