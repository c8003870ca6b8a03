"""The roles of the cluster: made by a command of their own, never dropped by a migration."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from penstock.contract.errors import DatabaseUnavailable, PenstockError, SchemaOutdated
from penstock.store.connect import unavailable
from penstock.store.lines import lines
from penstock.store.passwords import verifier

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

ORCHESTRATOR: Final = "penstock_orchestrator"  # enqueues
WORKER: Final = "penstock_worker"  # claims and records
FRONTEND: Final = "penstock_frontend"  # reads the public status of its own home
OPERATOR: Final = "penstock_operator"  # cancels and replays
VIEWER: Final = "penstock_viewer"  # reads states, times, counts and codes
ROLES: Final = (ORCHESTRATOR, WORKER, FRONTEND, OPERATOR, VIEWER)
OPTIONS: Final = "login nosuperuser nobypassrls nocreaterole nocreatedb inherit"
# One right that each role has in a database where `apply_grants` has run, and would lack in any other.
TOUCHSTONE: Final = {
    ORCHESTRATOR: "has_column_privilege($1, 'penstock.jobs', 'status', 'select')",
    WORKER: "has_any_column_privilege($1, 'penstock.jobs', 'update')",
    FRONTEND: "has_schema_privilege($1, 'penstock', 'usage')",
    OPERATOR: "has_function_privilege($1, 'penstock.cancel(uuid, text, text)', 'execute')",
    VIEWER: "has_column_privilege($1, 'penstock.jobs', 'status', 'select')",
}


@dataclass(frozen=True, slots=True)
class Role:
    """One of the five roles, as the cluster and this database know it."""

    name: str
    exists: bool
    login: bool
    unsafe: bool  # superuser or BYPASSRLS: no rule of the database would bind it
    granted: bool  # has its rights in this database
    temporary: bool  # may make temporary objects here, by itself or as everybody may


async def create_roles(
    admin_dsn: str, passwords: Mapping[str, str] | None = None, *, reset_passwords: bool = False
) -> list[str]:
    """Create the roles that are missing and return their names.

    Logins without superuser, BYPASSRLS or CREATEROLE; a role that exists is
    left as it is, its password too unless *reset_passwords*. *admin_dsn* needs
    CREATEROLE. The server is sent a SCRAM verifier, never a password.
    """
    given = passwords or {}
    async with session(admin_dsn) as connection:
        made = [role for role in ROLES if await _create(connection, role, given.get(role))]
        if reset_passwords:
            for role in set(given) - set(made):
                await _set_password(connection, role, given[role])
        return made


async def apply_grants(owner_dsn: str) -> list[str]:
    """Give the roles that exist their rights in this database, and take away what they should not have.

    The engine's, and those of every installed application that has a function
    for it. Asks for the schema's owner.
    """
    async with session(owner_dsn) as connection:
        granted: list[str] = await connection.fetchval("select penstock.apply_grants()")
        for line in lines()[1:]:
            function = f"{line.schema}.apply_grants()"
            if await connection.fetchval("select to_regprocedure($1) is not null", function):
                await connection.execute(f"select {function}")
        return granted


async def listed(dsn: str) -> list[Role]:
    """The five roles, whether they exist or not."""
    async with session(dsn) as connection:
        return await look(connection)


async def look(connection: asyncpg.Connection[Any]) -> list[Role]:
    """The same over an open connection."""
    rows = await connection.fetch(
        "select rolname::text as name, rolcanlogin, rolsuper or rolbypassrls as unsafe, "
        "has_database_privilege(oid, current_database(), 'temporary') as temporary "
        "from pg_roles where rolname = any($1::text[])",
        list(ROLES),
    )
    known = {row["name"]: row for row in rows}
    schema = await connection.fetchval("select to_regclass('penstock.jobs') is not null")
    found = []
    for name in ROLES:
        row = known.get(name)
        if row is None:
            found.append(Role(name, exists=False, login=False, unsafe=False, granted=False, temporary=False))
            continue
        granted = schema and await connection.fetchval(f"select {TOUCHSTONE[name]}", name)
        found.append(Role(name, True, row["rolcanlogin"], row["unsafe"], bool(granted), row["temporary"]))
    return found


async def missing_roles(connection: asyncpg.Connection[Any]) -> list[str]:
    """The roles that the cluster does not have."""
    rows = await connection.fetch("select rolname::text from pg_roles where rolname = any($1::text[])", list(ROLES))
    return sorted(set(ROLES) - {row["rolname"] for row in rows})


@asynccontextmanager
async def session(dsn: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection for one command about roles, with errors that name the login it takes."""
    try:
        name = {"application_name": "penstock roles"}
        connection = await asyncpg.connect(dsn, timeout=10, server_settings=name, statement_cache_size=0)
    except Exception as error:
        raise unavailable(error, dsn) from None
    try:
        yield connection
    except asyncpg.InsufficientPrivilegeError as error:
        raise PenstockError(
            f"{error}; roles and logins are made by a login with CREATEROLE, grants by the schema's owner"
        ) from None
    except (asyncpg.UndefinedFunctionError, asyncpg.InvalidSchemaNameError):
        raise SchemaOutdated("this database has no Penstock schema; run `penstock migrate up` as its owner") from None
    except asyncpg.PostgresConnectionError as error:
        raise DatabaseUnavailable(f"the server went away ({type(error).__name__}); run the command again") from None
    finally:
        await connection.close()


async def _create(connection: asyncpg.Connection[Any], role: str, password: str | None) -> bool:
    """Make one role; False when it is there, also when somebody else makes it at this moment."""
    try:
        async with connection.transaction():
            if await connection.fetchval("select true from pg_roles where rolname = $1", role):
                return False
            await connection.execute(f'create role "{role}" {OPTIONS}')
            if password is not None:
                await _set_password(connection, role, password)
            return True
    except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
        return False


async def _set_password(connection: asyncpg.Connection[Any], role: str, password: str) -> None:
    # A verifier holds letters, digits and +/=:$- only, so it needs no quoting.
    await connection.execute(f"alter role \"{role}\" password '{verifier(password)}'")
