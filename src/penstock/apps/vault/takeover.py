"""What operators ask about the take-over of the outbox. The move itself is the migration 0002 of this line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.apps.vault.migrations import LINE
from penstock.apps.vault.statements import sql
from penstock.store import schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from penstock.store.claims import Db

VIEW = "enrichment_outbox"


@dataclass(frozen=True, slots=True)
class TakeOver:
    """How it went, and where it stands now."""

    outbox: str  # the table that was; a view of its name stands there
    taken_at: datetime
    seconds: float  # for which everybody else waited
    found: int  # rows
    moved: Mapping[str, int]  # what they became
    given_back: int  # of the queued: claims that had run out
    quarantined: int  # now
    held_by_pollers: int  # jobs that pollers of before work on now
    waiting: int  # jobs that wait now


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A row that is no job, by its ids and words; what an error said stays in the table."""

    quarantine_id: int
    id: str | None
    item_id: str | None
    status: str | None
    created_at: str | None
    problem: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Retried:
    """What a second try came to."""

    moved: int
    quarantined: int


async def status(db: Db) -> TakeOver:
    """How the take-over went; `SchemaOutdated` where there was none yet, as the line is not migrated."""
    await schema.require_current(db, LINE)
    row = await db.fetchrow(sql("takeover/status"))
    assert row is not None, "the migration writes it"  # noqa: S101 - a row that is always there
    facts = {**row, "moved": json.loads(row["moved"])}
    return TakeOver(outbox=f"{facts.pop('source_schema')}.{VIEW}", **facts)


async def quarantine(db: Db, *, after: int = 0, limit: int = 100) -> list[Quarantined]:
    """The quarantined rows behind the number *after*, in the order in which they came."""
    await schema.require_current(db, LINE)
    return [Quarantined(**row) for row in await db.fetch(sql("takeover/quarantine"), after, limit)]


async def retry(db: Db) -> Retried:
    """Try every quarantined row again; one that still has a problem stays, under a new number."""
    await schema.require_current(db, LINE)
    row = await db.fetchrow(sql("takeover/retry"))
    return Retried(**row) if row is not None else Retried(0, 0)
