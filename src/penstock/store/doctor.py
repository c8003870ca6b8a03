"""The doctor: looks at a database and says what is wrong with it and how to mend it.

Every check is a small function that takes the patient and returns its
findings; it changes nothing. A check that cannot look, for want of a right,
says so as a note and the others go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from penstock.store import connect, hosts, migrate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    Check = Callable[["Patient"], Awaitable["list[Finding]"]]


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"  # jobs are lost, exposed or not run
    WARNING = "warning"  # they will be, sooner or later
    NOTE = "note"  # worth knowing; nothing is wrong


PROBLEMS: Final = frozenset({Severity.ERROR, Severity.WARNING})


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it."""

    check: str
    severity: Severity
    finding: str
    remedy: str

    @property
    def is_problem(self) -> bool:
        """Whether the doctor should end with a bad exit code."""
        return self.severity in PROBLEMS


@dataclass(slots=True)
class Patient:
    """A database under examination, over one connection."""

    db: asyncpg.Connection[Any]
    dsn: str
    listen_dsn: str | None = None
    prepared: bool = True
    lines: Sequence[migrate.Line] = (migrate.ENGINE,)
    client_now: Callable[[], datetime] = lambda: datetime.now(UTC)
    has_schema: bool = False

    async def setting(self, name: str) -> str | None:
        """A setting of the server as this session sees it; None when the server has none of that name."""
        value: str | None = await self.db.fetchval("select current_setting($1, true)", name)
        return value


async def examine(
    dsn: str,
    *,
    listen_dsn: str | None = None,
    prepared: bool = True,
    lines: Sequence[migrate.Line] = (migrate.ENGINE,),
    client_now: Callable[[], datetime] | None = None,
) -> list[Finding]:
    """Everything that is wrong with the database at *dsn*, the worst first."""
    db = await plain_connection(dsn)
    try:
        patient = Patient(db, dsn, listen_dsn, prepared, lines)
        if client_now is not None:
            patient.client_now = client_now
        patient.has_schema = await db.fetchval("select to_regclass('penstock.jobs') is not null")
        found = [finding for check in checks(patient) for finding in await _looked(check, patient)]
    finally:
        await db.close()
    order = list(Severity)
    return sorted(found, key=lambda finding: order.index(finding.severity))


async def plain_connection(dsn: str, *, statements: int = 0) -> asyncpg.Connection[Any]:
    """A connection that asks nothing of what stands in the way: no settings at the start, no *statements* kept."""
    try:
        return await hosts.opened(
            dsn,
            timeout=connect.CONNECT_TIMEOUT,
            statement_cache_size=statements,
            server_settings={"application_name": "penstock doctor"},
        )
    except Exception as failure:
        raise connect.unavailable(failure, dsn) from None


def checks(patient: Patient) -> list[Check]:
    """The checks that make sense for *patient*: without a schema there is no work to look at."""
    from penstock.store.checks import login, schema, server, session, walls, work

    always = [*server.CHECKS, *login.CHECKS, *session.CHECKS, *schema.ALWAYS]
    return [*always, *schema.CHECKS, *work.CHECKS, *walls.CHECKS] if patient.has_schema else always


async def _looked(check: Check, patient: Patient) -> list[Finding]:
    try:
        return await check(patient)
    except asyncpg.InsufficientPrivilegeError:
        name = check.__name__.replace("_", " ")
        remedy = "run the doctor as the owner of the schema, with a grant of pg_read_all_stats"
        return [Finding(check.__name__, Severity.NOTE, f"this login may not look at: {name}", remedy)]


def error(check: str, finding: str, remedy: str) -> Finding:
    """A finding that costs jobs now."""
    return Finding(check, Severity.ERROR, finding, remedy)


def warning(check: str, finding: str, remedy: str) -> Finding:
    """A finding that will."""
    return Finding(check, Severity.WARNING, finding, remedy)


def note(check: str, finding: str, remedy: str) -> Finding:
    """A finding worth knowing."""
    return Finding(check, Severity.NOTE, finding, remedy)
