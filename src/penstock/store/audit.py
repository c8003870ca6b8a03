"""The audit, written by the database itself: moves of jobs whose type asks for it (A-07), acts of operators (C-68)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from penstock.store.claims import Db


@dataclass(frozen=True, slots=True)
class Entry:
    """One move."""

    at: datetime
    from_status: str | None
    to_status: str
    stage: str
    attempt: int
    claim_seq: int
    run_id: UUID | None
    worker_id: str | None
    code: str | None


async def trail(db: Db, job_id: UUID) -> list[Entry]:
    """The moves of a job, oldest first; empty for a job that is not audited."""
    rows = await db.fetch(
        "select at, from_status, to_status, stage, attempt, claim_seq, run_id, worker_id, code "
        "from penstock.job_events where job_id = $1 order by event_id",
        job_id,
    )
    return [Entry(*row) for row in rows]


async def acts(db: Db, action: str | None, limit: int) -> list[asyncpg.Record]:
    """What operators did, the newest first: the login that did it, and the name that it gave."""
    return await db.fetch(
        "select at, db_user::text as db_user, actor, action, subject::text as subject, reason "
        "from penstock.operator_events where $1::text is null or action = $1 order by event_id desc limit $2",
        action,
        limit,
    )
