"""Policies in the database, and the gates that operators and the breaker move."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

from penstock.contract.errors import NotFound
from penstock.contract.policies import CONTROL_CHANNEL, Audit, Limits, Policy
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.store.claims import Db


class Gate(NamedTuple):
    """How a type may be claimed just now."""

    job_type: str
    gated: bool  # one claim at a time, under its limits
    shut: bool  # paused, or its breaker is not closed: what has not started goes back
    shaky: bool  # a success would end its row of failures


async def sync(db: Db, policies: Iterable[Policy]) -> None:
    """Write *policies* to `penstock.types`; one that has not changed is left alone."""
    by_type = {policy.job_type: policy for policy in policies}
    written = [_written(policy) for policy in by_type.values()]
    for row in await db.fetch(sql("types/changed"), list(by_type), written):
        await _write(db, by_type[row["job_type"]])


async def waiting(db: Db) -> dict[str, list[str]]:
    """What workers asked for and an operator has not synced: the names of the policy's values, by type (C-71)."""
    rows = await db.fetch(sql("types/pending"))
    return {row["job_type"]: row["names"] for row in rows}


async def announce(db: Db, policy: Policy) -> bool:
    """Write one policy; False when this login may not, as types are the workers' to announce."""
    try:
        await _write(db, policy)
    except asyncpg.InsufficientPrivilegeError:
        return False
    return True


async def known(db: Db) -> list[asyncpg.Record]:
    """Every type with its policy and its gates."""
    return await db.fetch("select * from penstock.types order by job_type")


async def gates(db: Db, types: Sequence[str]) -> list[Gate]:
    """What holds each of *types* back."""
    return [Gate(*row) for row in await db.fetch(sql("types/gates"), types)]


async def pause(db: Db, job_type: str, *, who: str, why: str | None) -> None:
    """Claim no more of *job_type*; what runs goes on."""
    await _move_gate(
        db,
        "update penstock.types set paused_at = coalesce(paused_at, penstock.now()), paused_by = $2, pause_reason = $3 "
        "where job_type = $1 returning job_type",
        job_type,
        who,
        why,
    )


async def resume(db: Db, job_type: str) -> None:
    """Claim *job_type* again."""
    await _move_gate(
        db,
        "update penstock.types set paused_at = null, paused_by = null, pause_reason = null "
        "where job_type = $1 returning job_type",
        job_type,
    )


async def trip_breaker(db: Db, job_type: str, code: str) -> bool:
    """Count a failure that retries cannot mend; True when that has opened the breaker.

    Told to all workers, so that whichever of them has a success next ends the row.
    """
    tripped = bool(await db.fetchval("select penstock.trip_breaker($1, $2)", job_type, code))
    await _announce(db)
    return tripped


async def mend_breaker(db: Db, job_type: str) -> bool:
    """A job has succeeded: no failures in a row any more; True when that closed a breaker."""
    mended = bool(await db.fetchval("select penstock.mend_breaker($1)", job_type))
    if mended:
        await _announce(db)
    return mended


async def close_breaker(db: Db, job_type: str) -> bool:
    """An operator says that the cause is mended; True when that changed anything."""
    closed = bool(await db.fetchval("select penstock.close_breaker($1)", job_type))
    if closed:
        await _announce(db)
    return closed


async def set_limits(db: Db, job_type: str, limits: Limits) -> None:
    """Change the limits of a type until its policy changes."""
    await _move_gate(
        db,
        "update penstock.types set max_running = $2, rate_count = $3, rate_period = $4, key_max_running = $5, "
        "key_rate_count = $6, key_rate_period = $7 where job_type = $1 returning job_type",
        job_type,
        *_limit_columns(limits),
    )


async def _move_gate(db: Db, statement: str, *arguments: object) -> None:
    if await db.fetchval(statement, *arguments) is None:
        raise NotFound("type", arguments[0])
    await _announce(db)


async def _announce(db: Db) -> None:
    """Workers look at their gates again."""
    await db.execute("select pg_notify($1, '{\"gates\": true}')", CONTROL_CHANNEL)


async def _write(db: Db, policy: Policy) -> None:
    await db.execute(sql("types/sync"), *_columns(policy))


def _written(policy: Policy) -> str:
    return json.dumps(policy.to_json(), sort_keys=True)


def _columns(policy: Policy) -> tuple[Any, ...]:
    return (
        policy.job_type,
        _written(policy),
        list(policy.stages),
        policy.attempts,
        policy.priority,
        policy.audit is Audit.FULL,
        policy.stale_counts_attempt,
        policy.max_reclaims,
        policy.replayable,
        policy.steps_required,
        str(policy.dispatch),
        policy.channel,
        policy.max_payload_bytes,
        policy.enqueue_role,
        policy.keep_finished,
        policy.keep_keys,
        policy.breaker.after,
        policy.breaker.cooldown,
        *_limit_columns(policy.limits),
    )


def _limit_columns(limits: Limits) -> tuple[Any, ...]:
    return (
        limits.running,
        limits.rate.count if limits.rate else None,
        limits.rate.period if limits.rate else None,
        limits.key_running,
        limits.key_rate.count if limits.key_rate else None,
        limits.key_rate.period if limits.key_rate else None,
    )
