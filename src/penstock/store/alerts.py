"""Alerts: rows that say somebody should look, told to sinks once and acknowledged by a person (R-14)."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import NotFound
from penstock.store.statements import sql
from penstock.store.transactions import transaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from datetime import datetime

    import asyncpg

    from penstock.store.claims import Db, Transaction

TRIES: Final = 5  # offers of an alert whose sinks fail


class Severity(StrEnum):
    """How loud an alert is."""

    INFO = "info"
    ALERT = "alert"
    PAGE = "page"  # wake somebody
    ESCALATION = "escalation"  # operators cannot solve it alone


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert. The subject holds ids, counts and codes."""

    alert_id: int
    kind: str
    severity: Severity
    subject: Mapping[str, Any]
    created_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str | None


async def raise_alert(db: Db, kind: str, severity: Severity, subject: Mapping[str, Any]) -> int:
    """Raise an alert in whatever transaction *db* is in; it is announced after the commit."""
    alert_id: int = await db.fetchval(
        "insert into penstock.alerts (kind, severity, subject) values ($1, $2, $3::jsonb) returning alert_id",
        kind,
        severity,
        json.dumps(subject),
    )
    return alert_id


async def find(db: Db, *, kind: str | None = None, unacknowledged: bool = False, limit: int = 100) -> list[Alert]:
    """Alerts, newest first."""
    return [_alert(row) for row in await db.fetch(sql("alerts/find"), kind, unacknowledged, limit)]


async def acknowledge(db: Db, alert_id: int, *, who: str) -> bool:
    """Somebody has seen it; False when another one had said so before, whose name stays."""
    done = await db.fetchval(
        "update penstock.alerts set acknowledged_at = penstock.now(), acknowledged_by = $2 "
        "where alert_id = $1 and acknowledged_at is null returning true",
        alert_id,
        who,
    )
    if done is None and not await db.fetchval("select true from penstock.alerts where alert_id = $1", alert_id):
        raise NotFound("alert", alert_id)
    return bool(done)


@asynccontextmanager
async def next_unannounced(db: Db, after: int) -> AsyncIterator[tuple[Transaction, Alert] | None]:
    """The next alert nobody has announced, held against other announcers; None when there is none."""
    async with transaction(db) as tx:
        row = await tx.fetchrow(sql("alerts/next"), after)
        yield None if row is None else (tx, _alert(row))


async def announced(tx: Transaction, alert_id: int, *, by_all: bool) -> None:
    """The sinks were told; one that failed gets another chance, a few times."""
    await tx.execute(sql("alerts/announced"), alert_id, by_all, TRIES)


def _alert(row: asyncpg.Record) -> Alert:
    return Alert(
        row["alert_id"],
        row["kind"],
        Severity(row["severity"]),
        json.loads(row["subject"]),
        row["created_at"],
        row["acknowledged_at"],
        row["acknowledged_by"],
    )
