"""What operators look at. Every listing is bounded and stands on an index, whatever the table has grown to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import NotFound
from penstock.contract.statuses import Status
from penstock.store.statements import sql
from penstock.store.workers import ALIVE

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

    from penstock.store.claims import Db

WALK: Final = 100_000  # rows that a listing without an index of its own looks at
OPEN: Final = "open"
MOST_COUNTED: Final = 100_000


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs are meant; None means any."""

    job_type: str | None = None
    status: Status | None = None
    before: UUID | None = None  # older than this id; for statuses that have no index of their own
    limit: int = 50


@dataclass(frozen=True, slots=True)
class JobList:
    """The jobs found; `cut` says that older ones were not looked at."""

    jobs: list[asyncpg.Record]
    cut: bool = False


async def jobs(db: Db, wanted: JobFilter) -> JobList:
    """Jobs, each status in the order that helps: queued as claimed, processing oldest first, others newest first."""
    match wanted.status:
        case Status.QUEUED | Status.PROCESSING | Status.FAILED:
            name = f"jobs/list_{wanted.status}"
            return JobList(await db.fetch(sql(name), wanted.job_type, wanted.limit))
        case _:
            return await _recent(db, wanted)


async def _recent(db: Db, wanted: JobFilter) -> JobList:
    status = None if wanted.status is None else str(wanted.status)
    rows = await db.fetch(sql("jobs/list_recent"), wanted.job_type, status, wanted.before, wanted.limit, WALK)
    if len(rows) >= wanted.limit:
        return JobList(rows)
    beyond = await db.fetchval(
        "select true from penstock.jobs where $1::uuid is null or job_id < $1 order by job_id desc offset $2 limit 1",
        wanted.before,
        WALK,
    )
    return JobList(rows, cut=bool(beyond))


async def require_type(db: Db, job_type: str) -> None:
    """Tell a type that has no jobs from one that does not exist."""
    if not await db.fetchval("select true from penstock.types where job_type = $1", job_type):
        raise NotFound("type", job_type)


async def stages(db: Db, job_id: UUID) -> list[asyncpg.Record]:
    """The stages of a job that have begun, without their results."""
    return await db.fetch(
        "select stage, attempts, first_failure_at, last_failure_at, finished_at from penstock.job_stages "
        "where job_id = $1 order by finished_at nulls last, stage",
        job_id,
    )


async def effects(
    db: Db, *, job_id: UUID | None = None, state: str | None = None, kind: str | None = None, limit: int = 50
) -> list[asyncpg.Record]:
    """Outside effects; `open` stands for those that are neither done nor given up."""
    if state == OPEN:
        return await db.fetch(sql("effects/list_open"), kind, limit, job_id)
    return await db.fetch(sql("effects/list"), job_id, state, kind, limit)


async def stats(db: Db) -> list[asyncpg.Record]:
    """What waits, runs and needs a person, by type; counts end at `MOST_COUNTED`."""
    return await db.fetch(sql("jobs/stats"), MOST_COUNTED)


async def totals(db: Db) -> dict[str, Any]:
    """The whole at a glance."""
    row = await db.fetchrow(sql("jobs/totals"), ALIVE)
    return dict(row or {})
