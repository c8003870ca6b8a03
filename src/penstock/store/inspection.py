"""What tests look at: jobs by what they carry, their trail, their dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.contract.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    import asyncpg

    from penstock.store.claims import Db


async def jobs_like(
    db: Db, job_type: str, *, payload: str | None = None, key: str | None = None, status: str | None = None
) -> list[asyncpg.Record]:
    """Jobs of *job_type* whose payload contains *payload* (as JSON containment), in the order of their enqueue."""
    return await db.fetch(
        "select * from penstock.jobs where job_type = $1 and ($2::jsonb is null or payload @> $2::jsonb) "
        "and ($3::text is null or idempotency_key = $3) and ($4::text is null or status = $4) "
        "order by created_at, job_id",
        job_type,
        payload,
        key,
        status,
    )


async def job(db: Db, job_id: UUID) -> asyncpg.Record:
    """One job with all its columns, its payload too: for the owner of a test's database."""
    row: asyncpg.Record | None = await db.fetchrow("select * from penstock.jobs where job_id = $1", job_id)
    if row is None:
        raise NotFound("job", job_id)
    return row


async def trail(db: Db, job_id: UUID) -> list[asyncpg.Record]:
    """The audit rows of one job, oldest first."""
    return await db.fetch("select * from penstock.job_events where job_id = $1 order by event_id", job_id)


async def dead_letters(db: Db) -> list[asyncpg.Record]:
    """Every dead letter, oldest first."""
    return await db.fetch("select * from penstock.dead_letters order by created_at, dead_letter_id")


async def until_next_due(db: Db, types: Sequence[str]) -> timedelta | None:
    """How long until the next queued job of *types* falls due; None when none waits."""
    span: timedelta | None = await db.fetchval(
        "select min(run_at) - penstock.now() from penstock.jobs "
        "where status = 'queued' and not ready and job_type = any($1::text[])",
        types,
    )
    return span


async def open_jobs(db: Db, types: Sequence[str]) -> int:
    """How many jobs of *types* have not ended."""
    count: int = await db.fetchval(
        "select count(*) from penstock.jobs where status in ('queued', 'processing') and job_type = any($1::text[])",
        types,
    )
    return count
