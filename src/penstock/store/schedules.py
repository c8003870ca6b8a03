"""Durable schedules: declared, claimed, used up tick by tick.

Every write of a scheduler names the schedule and its `claim_seq`. A scheduler
whose lease ran out in between writes nothing and is told so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.contract.errors import NotFound
from penstock.contract.policies import CONTROL_CHANNEL
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    import asyncpg

    from penstock.store.claims import Db


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule as the code has it: a function to run or a job to enqueue, and when."""

    schedule: str
    function: str | None
    job_type: str | None
    payload: str
    cron: str | None
    every: timedelta | None
    timezone: str


@dataclass(frozen=True, slots=True)
class Tick:
    """One due time of a claimed schedule; `due_at` is None when an operator asked for it beside the cadence."""

    schedule: str
    claim_seq: int
    due_at: datetime | None
    next_due_at: datetime | None
    missed: int

    def arguments(self) -> tuple[Any, ...]:
        """What the statements that use a tick up take first."""
        return self.schedule, self.claim_seq, self.due_at, self.next_due_at, self.missed


async def sync(db: Db, source: str, declared: Iterable[tuple[Declared, datetime]]) -> list[str]:
    """Write what *source* declares, each with its first due time; returns the names that it no longer declares."""
    names = []
    for schedule, due in declared:
        names.append(schedule.schedule)
        await db.execute(
            sql("schedules/sync"),
            schedule.schedule,
            schedule.function,
            schedule.job_type,
            schedule.payload,
            schedule.cron,
            schedule.every,
            schedule.timezone,
            source,
            due,
        )
    rows = await db.fetch(sql("schedules/retire"), source, names)
    await _announce(db)
    return [row["schedule"] for row in rows]


async def claim(db: Db, scheduler: str, functions: Sequence[str], lease: timedelta) -> list[asyncpg.Record]:
    """Take what is due; a schedule that another scheduler holds is left to it."""
    return await db.fetch(sql("schedules/claim"), scheduler, lease, functions)


async def begin_run(db: Db, tick: Tick, run: Mapping[str, Any]) -> datetime | None:
    """Use *tick* up and record its run; None when the tick is not this scheduler's any more."""
    started: datetime | None = await db.fetchval(
        sql("schedules/begin_run"),
        *tick.arguments(),
        run["run_id"],
        run["function"],
        run["trigger"],
        run["worker_id"],
        run["profile"],
        run["max_jobs_per_run"],
        run["max_runtime_seconds"],
    )
    return started


async def begin_skip(db: Db, tick: Tick, function: str, reason: str) -> bool:
    """Use *tick* up and record its skip; False when the tick is not this scheduler's any more."""
    return await db.fetchval(sql("schedules/begin_skip"), *tick.arguments(), function, reason) is not None


async def enqueue(db: Db, tick: Tick, key: str, job_id: UUID) -> asyncpg.Record | None:
    """Use *tick* up and put its job in; (job_id, created, channel), or None when the tick is another scheduler's."""
    return await db.fetchrow(sql("schedules/enqueue"), *tick.arguments(), key, job_id)


async def renew(db: Db, claims: Sequence[tuple[str, int]], lease: timedelta) -> None:
    """Hold on to schedules whose runs go on."""
    await db.execute(
        "update penstock.schedules as s set lease_expires_at = penstock.now() + $3::interval "
        "from unnest($1::text[], $2::bigint[]) as held(schedule, claim_seq) "
        "where s.schedule = held.schedule and s.claim_seq = held.claim_seq and s.claimed_by is not null",
        [schedule for schedule, _ in claims],
        [claim_seq for _, claim_seq in claims],
        lease,
    )


async def release(db: Db, schedule: str, claim_seq: int) -> None:
    """The run is over; the schedule may be claimed again when it is due."""
    await db.execute(
        "update penstock.schedules set claimed_by = null, lease_expires_at = null "
        "where schedule = $1 and claim_seq = $2",
        schedule,
        claim_seq,
    )


async def next_due(db: Db, functions: Sequence[str]) -> timedelta | None:
    """How long until a scheduler of *functions* is needed."""
    span: timedelta | None = await db.fetchval(sql("schedules/next_due"), functions)
    return span


async def listed(db: Db) -> list[asyncpg.Record]:
    """Every schedule; `overdue` when its time is more than a minute past and nobody runs it."""
    return await db.fetch(sql("schedules/list"))


async def switch(db: Db, schedule: str, *, enabled: bool, next_due: datetime | None = None) -> None:
    """Turn a schedule on or off; turned on again it is due at *next_due*, so that the pause is not made up for."""
    await _change(
        db,
        "update penstock.schedules set enabled = $2, next_due_at = coalesce($3, next_due_at) "
        "where schedule = $1 returning schedule",
        schedule,
        enabled,
        next_due,
    )


async def request(db: Db, schedule: str, who: str) -> None:
    """Ask the schedulers to run *schedule* now, beside its cadence."""
    await _change(
        db,
        "update penstock.schedules set requested_at = penstock.now(), requested_by = $2 "
        "where schedule = $1 returning schedule",
        schedule,
        who,
    )


async def get(db: Db, schedule: str) -> asyncpg.Record:
    """One schedule."""
    row: asyncpg.Record | None = await db.fetchrow(sql("schedules/get"), schedule)
    if row is None:
        raise NotFound("schedule", schedule)
    return row


async def _change(db: Db, statement: str, *arguments: object) -> None:
    if await db.fetchval(statement, *arguments) is None:
        raise NotFound("schedule", arguments[0])
    await _announce(db)


async def _announce(db: Db) -> None:
    """Schedulers look at their next due time again."""
    await db.execute("select pg_notify($1, $2)", CONTROL_CHANNEL, json.dumps({"schedules": True}))
