"""The roles of the cluster: made by a command of their own, never dropped by a migration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import asyncpg

from penstock.store.connect import unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

ORCHESTRATOR: Final = "penstock_orchestrator"  # enqueues
WORKER: Final = "penstock_worker"  # claims and records
FRONTEND: Final = "penstock_frontend"  # reads the public status of its own home
OPERATOR: Final = "penstock_operator"  # cancels and replays
ROLES: Final = (ORCHESTRATOR, WORKER, FRONTEND, OPERATOR)


async def create_roles(admin_dsn: str, passwords: Mapping[str, str] | None = None) -> list[str]:
    """Create the roles that are missing and return their names.

    Logins without superuser, BYPASSRLS or CREATEROLE; a role that exists is
    left as it is, its password too. *admin_dsn* needs CREATEROLE.
    """
    try:
        connection = await asyncpg.connect(admin_dsn, timeout=10)
    except Exception as error:
        raise unavailable(error, admin_dsn) from None
    try:
        return [role for role in ROLES if await _create(connection, role, (passwords or {}).get(role))]
    finally:
        await connection.close()


async def apply_grants(owner_dsn: str) -> list[str]:
    """Give the roles that exist their rights in this database; asks for the schema's owner."""
    try:
        connection = await asyncpg.connect(owner_dsn, timeout=10)
    except Exception as error:
        raise unavailable(error, owner_dsn) from None
    try:
        granted: list[str] = await connection.fetchval("select penstock.apply_grants()")
        return granted
    finally:
        await connection.close()


async def missing_roles(connection: asyncpg.Connection[Any]) -> list[str]:
    """The roles that the cluster does not have."""
    rows = await connection.fetch("select rolname::text from pg_roles where rolname = any($1::text[])", list(ROLES))
    return sorted(set(ROLES) - {row["rolname"] for row in rows})


async def _create(connection: asyncpg.Connection[Any], role: str, password: str | None) -> bool:
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock(hashtext('penstock.roles'))")
        if await connection.fetchval("select true from pg_roles where rolname = $1", role):
            return False
        options = "login nosuperuser nobypassrls nocreaterole nocreatedb inherit"
        await connection.execute(f'create role "{role}" {options}')
        if password is not None:
            quoted = await connection.fetchval("select quote_literal($1::text)", password)
            await connection.execute(f'alter role "{role}" password {quoted}')
        return True
