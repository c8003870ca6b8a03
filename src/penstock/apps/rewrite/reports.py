"""What operators read: the record and the audit of one request, and sums over all homes that name nobody (A-81)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.apps.rewrite.homes import enter_home
from penstock.apps.rewrite.statements import sql
from penstock.store.transactions import transaction

if TYPE_CHECKING:
    from datetime import date, datetime
    from uuid import UUID

    from penstock.store.claims import Db
    from penstock.store.connect import Record

    Row = dict[str, Any]


async def record(db: Db, home_id: UUID, rewrite_request_id: UUID) -> Row | None:
    """The job record of a request, by the names of its contract (Q-19 to Q-32); None: this home has none."""
    async with transaction(db) as connection:
        await enter_home(connection, home_id)
        row = await connection.fetchrow(sql("reports/record"), rewrite_request_id)
    return None if row is None else _decoded(row, "language_pair", "routing_decision")


async def audit(db: Db, home_id: UUID, rewrite_request_id: UUID) -> list[Row]:
    """Every move of the job of a request, the oldest first (A-77 to A-80, L-61 to L-65)."""
    async with transaction(db) as connection:
        await enter_home(connection, home_id)
        return [dict(row) for row in await connection.fetch(sql("reports/audit"), rewrite_request_id)]


async def cost(db: Db, since: date | None = None, until: date | None = None) -> list[Row]:
    """What each pair of languages has cost; both days count."""
    return [dict(row) for row in await db.fetch(sql("reports/cost"), since, until)]


async def failures(db: Db, since: datetime | None = None, until: datetime | None = None) -> list[Row]:
    """How requests of each pair of languages have ended."""
    return [dict(row) for row in await db.fetch(sql("reports/failures"), since, until)]


async def regressions(db: Db, since: datetime | None = None, until: datetime | None = None) -> list[Row]:
    """What each set of versions let through and refused."""
    return [_decoded(row, "codes") for row in await db.fetch(sql("reports/regressions"), since, until)]


async def incidents(
    db: Db, code: str | None = None, since: datetime | None = None, until: datetime | None = None
) -> list[Row]:
    """When which failure was met, where, and by how many jobs."""
    return [dict(row) for row in await db.fetch(sql("reports/incidents"), code, since, until)]


def _decoded(row: Record, *names: str) -> Row:
    return {**row, **{name: json.loads(row[name]) for name in names}}
