"""Jobs: putting them in, looking at them, canceling them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import asyncpg

from penstock.contract.errors import NotFound
from penstock.contract.policies import NAME
from penstock.store import puts
from penstock.store.statements import sql

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.store.claims import Db


async def put(db: Db, job: puts.NewJob, *, poke: bool = False) -> puts.Put:
    """Put one job in, inside whatever transaction *db* is in; a refusal leaves that transaction good."""
    try:
        row = await db.fetchrow(sql(puts.ONE), *job.arguments(poke))
    except asyncpg.PostgresError as error:
        raised = puts.refusal(error, job.job_type)
    else:
        return puts.answer(row, job.job_type)
    raise raised


async def put_plain(db: Db, job: puts.NewJob, channel: str) -> bool:
    """Put a plain job in by the shortest way; False when only `put` can say what is to be said about it.

    *channel* is where its type was poked before: one that has moved since is
    not written, so that nobody pokes in vain.
    """
    try:
        written: bool = await db.fetchval(sql(puts.PLAIN), job.job_type, job.payload, job.job_id, channel)
    except asyncpg.PostgresError as error:
        raised = puts.refusal(error, job.job_type)
    else:
        return written
    raise raised


async def put_again(db: Db, job: puts.NewJob, *, poke: bool = False) -> puts.Put:
    """Put a job in whose first try had no answer: if that one went in after all, its id is taken."""
    try:
        row = await db.fetchrow(sql(puts.ONE), *job.arguments(poke))
    except asyncpg.UniqueViolationError:
        return puts.Put(job.job_id, created=True, channel=await channel_of(db, job.job_type))
    except asyncpg.PostgresError as error:
        raised = puts.refusal(error, job.job_type)
    else:
        found = puts.answer(row, job.job_type)
        if found.job_id != job.job_id or found.created:
            return found
        return puts.Put(job.job_id, created=True, channel=await channel_of(db, job.job_type))
    raise raised


async def put_many(db: Db, jobs: puts.NewJobs, *, poke: bool = False) -> puts.PutMany:
    """Put a set of jobs in; a refusal fails the transaction that *db* is in."""
    try:
        row = await db.fetchrow(sql(puts.MANY), *jobs.arguments(poke))
    except asyncpg.PostgresError as error:
        raised = puts.refusal(error, jobs.job_type)
    else:
        return puts.answer_many(row, jobs)
    raise raised


async def channel_of(db: Db, job_type: str) -> str | None:
    """Where a job of *job_type* is poked; None for a scheduled type."""
    channel: str | None = await db.fetchval(
        "select channel from penstock.types where job_type = $1 and dispatch = 'notify'", job_type
    )
    return channel


async def committed(db: Db, transaction_id: str) -> bool | None:
    """Whether a transaction of this server has committed; None while it is still open."""
    status: str | None = await db.fetchval("select pg_xact_status(cast(cast($1 as text) as xid8))", transaction_id)
    return None if status == "in progress" else status == "committed"


async def poke(db: Db, channel: str, job_type: str) -> None:
    """Wake the workers that listen on *channel*; no type wakes all."""
    statement = poke_statement(channel, job_type)
    if statement is None:
        await db.execute("select penstock.poke($1, $2)", channel, job_type)
    else:
        await db.execute(statement)


def poke_statement(channel: str, job_type: str) -> str | None:
    """What `penstock.poke` does, as NOTIFY itself, which needs no plan; None: a name would not fit in."""
    if not NAME.fullmatch(channel) or (job_type and not NAME.fullmatch(job_type)):
        return None
    payload = json.dumps({"job_type": job_type}) if job_type else ""
    return f"notify \"{channel}\", '{payload}'"


async def get(db: Db, job_id: UUID) -> asyncpg.Record:
    """One job with everything but its payload, which `open_payload` gives to those who say why."""
    row: asyncpg.Record | None = await db.fetchrow(sql("jobs/get"), job_id)
    if row is None:
        raise NotFound("job", job_id)
    return row


async def open_payload(db: Db, job_id: UUID, *, reason: str, who: str) -> str:
    """The payload of a job as JSON; who opened it, and why, is kept (C-68)."""
    opened: str | None = await db.fetchval("select penstock.open_payload($1, $2, $3)::text", job_id, reason, who)
    if opened is None:
        raise NotFound("job", job_id)
    return opened


async def cancel(db: Db, job_id: UUID, *, who: str, why: str | None) -> str:
    """Cancel a job; returns the status it has now, which is another one if it had ended before."""
    status: str | None = await db.fetchval("select penstock.cancel($1, $2, $3)", job_id, who, why)
    if status is None:
        raise NotFound("job", job_id)
    return status


async def depths(db: Db) -> dict[str, int]:
    """How many jobs of each type are queued, due or not (C-54)."""
    return {row[0]: row[1] for row in await db.fetch(sql("jobs/depths"))}
