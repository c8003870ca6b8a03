"""Jobs: putting them in, looking at them, canceling them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from penstock.contract.errors import EnqueueRefused, IdempotencyKeyReused, NotFound, PayloadRejected, UnknownType
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from penstock.store.claims import Db

UNKNOWN_TYPE: Final = "PS010"
KEY_REUSED: Final = "PS011"
TOO_LARGE: Final = "PS012"


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be put in, its payload encoded and its key in stored form."""

    job_type: str
    payload: str
    job_id: UUID
    key: str | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    priority: int | None = None
    limit_key: str | None = None
    max_attempts: int | None = None

    def arguments(self) -> tuple[Any, ...]:
        """What `sql/jobs/put.sql` takes, in order."""
        return (
            self.job_type,
            self.payload,
            self.key,
            self.run_at,
            self.delay,
            self.priority,
            self.limit_key,
            self.max_attempts,
            self.job_id,
        )


@dataclass(frozen=True, slots=True)
class Put:
    """What an enqueue came to: `created` is False when the key was known; `channel` is None when no poke is due."""

    job_id: UUID
    created: bool
    channel: str | None


async def put(db: Db, job: NewJob) -> Put:
    """Put one job in, inside whatever transaction *db* is in."""
    try:
        row = await db.fetchrow(sql("jobs/put"), *job.arguments())
    except asyncpg.PostgresError as error:
        raise refusal(error, job.job_type) from None
    assert row is not None  # noqa: S101 - a function with OUT parameters returns one row
    return Put(*row)


async def put_many(
    db: Db,
    job_type: str,
    job_ids: Sequence[UUID],
    payloads: Sequence[str],
    *,
    keys: Sequence[str | None] | None,
    run_ats: Sequence[datetime | None],
    priority: int | None,
    limit_keys: Sequence[str | None],
) -> list[tuple[UUID, bool]]:
    """Put many jobs of one type in; (job_id, created) for each, in order."""
    try:
        rows = await db.fetch(
            sql("jobs/put_many"), job_type, job_ids, payloads, keys, run_ats, priority, limit_keys
        )
    except asyncpg.PostgresError as error:
        raise refusal(error, job_type) from None
    return [(row[0], row[1]) for row in rows]


def refusal(error: Exception, job_type: str) -> Exception:
    """The Penstock error for what the database said, without the driver's text, which may repeat the payload (rule 9)."""
    code = getattr(error, "sqlstate", None)
    match code:
        case "PS010":
            return UnknownType(job_type)
        case "PS011":
            return IdempotencyKeyReused(job_type)
        case "PS012":
            return PayloadRejected(f"{error}; store the data in a table of your own and enqueue its id")
        case "22P05" | "22021" | "22P02":
            return PayloadRejected("the payload holds text that PostgreSQL cannot store (NUL or a lone surrogate)")
        case "42501":
            return EnqueueRefused(f"this login may not enqueue {job_type!r}; use the role that the type names")
        case _:
            return error


async def poke(db: Db, channel: str, job_type: str) -> None:
    """Wake the workers that listen on *channel*."""
    await db.execute("select penstock.poke($1, $2)", channel, job_type)


async def get(db: Db, job_id: UUID) -> asyncpg.Record:
    """One job with all its columns."""
    row = await db.fetchrow("select * from penstock.jobs where job_id = $1", job_id)
    if row is None:
        raise NotFound("job", job_id)
    return row


async def cancel(db: Db, job_id: UUID, *, who: str, why: str | None) -> str:
    """Cancel a job; returns the status it has now, which is another one if it had ended before."""
    status: str | None = await db.fetchval("select penstock.cancel($1, $2, $3)", job_id, who, why)
    if status is None:
        raise NotFound("job", job_id)
    return status


async def depths(db: Db) -> dict[str, int]:
    """How many jobs of each type are queued, due or not (C-54)."""
    rows = await db.fetch("select job_type, count(*) from penstock.jobs where status = 'queued' group by job_type")
    return {row[0]: row[1] for row in rows}
