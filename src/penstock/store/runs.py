"""Run records and skip events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.contract.errors import NotFound, SchemaOutdated
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from penstock.store.claims import Db


@dataclass(frozen=True, slots=True)
class Pending:
    """What waits for a run."""

    eligible: int  # queued and due
    expired: int  # claimed, and the lease has run out

    @property
    def count(self) -> int:
        """All of it."""
        return self.eligible + self.expired


@dataclass(frozen=True, slots=True)
class Rights:
    """What the login may do about runs."""

    works: bool  # claim and record
    operates: bool  # start a run by hand


async def save(db: Db, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write run records; a run that is known is brought up to date."""
    await db.execute("select penstock.save_runs($1::jsonb)", json.dumps(rows))


async def begin(db: Db, run: Mapping[str, Any]) -> datetime:
    """Record a run that begins; returns its start by the database's clock."""
    started: datetime = await db.fetchval(
        sql("runs/begin"),
        run["run_id"],
        run["function"],
        run["trigger"],
        run["worker_id"],
        run["profile"],
        run["max_jobs_per_run"],
        run["max_runtime_seconds"],
    )
    return started


async def finish(db: Db, run: Mapping[str, Any]) -> datetime:
    """Bring the record of a run to its end; returns that moment by the database's clock."""
    await save(db, [run])
    finished: datetime = await db.fetchval("select finished_at from penstock.runs where run_id = $1", run["run_id"])
    return finished


async def expired(db: Db) -> int:
    """How many claims of any type have outlived their lease."""
    count: int = await db.fetchval(
        "select count(*) from penstock.jobs where status = 'processing' and lease_expires_at < penstock.now()"
    )
    return count


async def pending(db: Db, types: Sequence[str]) -> Pending:
    """Count what waits for a run of *types* (Q-49)."""
    row = await db.fetchrow(sql("runs/pending"), types)
    assert row is not None  # noqa: S101 - two counts are always one row
    return Pending(row["eligible"], row["expired"])


async def rights(db: Db) -> Rights:
    """Ask the database what this login may do."""
    row = await db.fetchrow(sql("runs/roles"))
    if row is None:
        raise SchemaOutdated("the database has no schema penstock; run `penstock migrate up`")
    return Rights(row["works"], row["operates"])


async def skip(db: Db, function: str, reason: str) -> None:
    """Record that there was nothing to do (Q-50)."""
    await db.execute(
        "insert into penstock.skips (function, at, reason) values ($1, penstock.now(), $2)", function, reason
    )


async def get(db: Db, run_id: UUID) -> asyncpg.Record:
    """One run."""
    row: asyncpg.Record | None = await db.fetchrow("select * from penstock.runs where run_id = $1", run_id)
    if row is None:
        raise NotFound("run", run_id)
    return row


async def listed(db: Db, *, function: str | None = None, limit: int = 50) -> list[asyncpg.Record]:
    """The newest runs."""
    return await db.fetch(
        "select * from penstock.runs where $1::text is null or function = $1 order by started_at desc limit $2",
        function,
        limit,
    )


async def skips(db: Db, *, function: str | None = None, limit: int = 50) -> list[asyncpg.Record]:
    """The newest skips."""
    return await db.fetch(
        "select * from penstock.skips where $1::text is null or function = $1 order by skip_id desc limit $2",
        function,
        limit,
    )
