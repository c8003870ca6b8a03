"""Logins that are members of one of our roles: how one is made, with limits of its own.

The limits are seat belts, not walls: a session may set its timeouts anew with
SET, and only the number of connections is the server's to keep. They keep a
login that runs wild, or a pool that was set too large, from taking the server
along. What a login may do at all is its role's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import PenstockError, SettingsInvalid
from penstock.contract.policies import DEFAULT_TIMEOUT
from penstock.store.passwords import verifier
from penstock.store.roles import FRONTEND, OPERATOR, OPTIONS, ORCHESTRATOR, ROLES, VIEWER, WORKER, session

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

MOST_BYTES: Final = 63  # of a name, in PostgreSQL
OFF: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a login may take at once and for how long; a time of 0 is no limit."""

    connections: int
    statement: timedelta
    lock: timedelta
    idle_in_transaction: timedelta

    def settings(self) -> dict[str, int]:
        """The settings of the login, in milliseconds."""
        return {
            "statement_timeout": _milliseconds(self.statement),
            "lock_timeout": _milliseconds(self.lock),
            "idle_in_transaction_session_timeout": _milliseconds(self.idle_in_transaction),
        }


def _limits(connections: int, statement: int, lock: int, idle: int) -> Limits:
    return Limits(connections, timedelta(seconds=statement), timedelta(seconds=lock), timedelta(seconds=idle))


# A worker process takes up to 20 connections; its handlers may hold a transaction for as long as their stage.
DEFAULTS: Final[Mapping[str, Limits]] = {
    ORCHESTRATOR: _limits(50, 30, 10, 300),
    WORKER: _limits(60, 3600, 30, 3600),
    FRONTEND: _limits(50, 10, 5, 60),
    OPERATOR: _limits(10, 120, 10, 300),
    VIEWER: _limits(10, 30, 5, 60),
}


@dataclass(frozen=True, slots=True)
class Longest:
    """The stage that may take longest of all stored types, and for how long; None: for ever."""

    job_type: str
    stage: str
    limit: timedelta | None


async def longest_stage(owner_dsn: str) -> Longest | None:
    """None when the database knows no type yet, or has no schema."""
    async with session(owner_dsn) as connection:
        if not await connection.fetchval("select to_regclass('penstock.types') is not null"):
            return None
        rows = await connection.fetch("select job_type, policy, stages from penstock.types")
    stages = [
        Longest(row["job_type"], stage, _timeout(row["policy"], stage)) for row in rows for stage in row["stages"]
    ]
    return max(stages, key=lambda found: found.limit or timedelta.max, default=None)


def fitted(limits: Limits, longest: Longest | None, *, asked: bool) -> Limits:
    """*limits* with an idle limit that ends no stage; one that was *asked* for and is too short is refused.

    A handler in the middle of `job.transaction()` is idle in its transaction
    while it waits for a provider. A limit below its stage's would end it first.
    """
    idle = limits.idle_in_transaction
    if longest is None or idle == OFF or (longest.limit is not None and longest.limit <= idle):
        return limits
    if asked:
        how_long = "has no time limit" if longest.limit is None else f"may take {longest.limit.total_seconds():g} s"
        raise SettingsInvalid(
            f"an idle-in-transaction limit of {idle.total_seconds():g} s would end transactions of handlers that are "
            f"within their time: the stage {longest.stage!r} of type {longest.job_type!r} {how_long}; give a longer "
            "limit, 0 for none, or shorten the stage's timeout"
        )
    return replace(limits, idle_in_transaction=longest.limit or OFF)


async def create(admin_dsn: str, name: str, role: str, limits: Limits, password: str | None) -> None:
    """Make the login *name*, a member of *role* that inherits its rights; one that exists raises and is left as it is.

    No superuser, no BYPASSRLS, and nothing that could make it one. *admin_dsn*
    needs CREATEROLE. The server is sent a SCRAM verifier, never a password.
    """
    _refuse_name(name)
    async with session(admin_dsn) as connection, connection.transaction():
        if not await _there(connection, role):
            raise PenstockError(f"the role {role} does not exist; run `penstock roles create` first")
        if await _there(connection, name):
            raise PenstockError(
                f"there is a role {name!r} already, and it was left as it is; choose another name, or drop it first"
            )
        quoted = '"' + name.replace('"', '""') + '"'
        await connection.execute(f"create role {quoted} {OPTIONS} noreplication connection limit {limits.connections}")
        if password is not None:
            # A verifier holds letters, digits and +/=:$- only, so it needs no quoting.
            await connection.execute(f"alter role {quoted} password '{verifier(password)}'")
        await connection.execute(f'grant "{role}" to {quoted}')
        for setting, milliseconds in limits.settings().items():
            await connection.execute(f"alter role {quoted} set {setting} = {milliseconds}")


def _refuse_name(name: str) -> None:
    if not name or "\0" in name or len(name.encode(errors="replace")) > MOST_BYTES or name.startswith("pg_"):
        raise SettingsInvalid(f"a login's name has 1 to {MOST_BYTES} bytes, no NUL, and does not begin with pg_")
    if name in ROLES or name.lower() in {"public", "none"}:
        raise SettingsInvalid(f"{name!r} is taken: give the login a name of its own, such as worker_1")


async def _there(connection: asyncpg.Connection[Any], role: str) -> bool:
    return bool(await connection.fetchval("select true from pg_roles where rolname = $1", role))


def _timeout(policy: str, stage: str) -> timedelta | None:
    stored = json.loads(policy).get("timeout")
    seconds = stored.get(stage, DEFAULT_TIMEOUT.total_seconds()) if isinstance(stored, dict) else stored
    return None if seconds is None else timedelta(seconds=seconds)


def _milliseconds(time: timedelta) -> int:
    return round(time.total_seconds() * 1000)
