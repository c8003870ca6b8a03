"""The ledger of outside effects: intents, marks, and what a recovery may do about a doubt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import asyncpg

from penstock.contract.errors import StepRefused
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from penstock.contract.claims import Claim
    from penstock.store.claims import Db


class Standing(StrEnum):
    """What the ledger answers to an intent."""

    LOST = "lost"  # the claim no longer owns its job
    BUSY = "busy"  # a claim that is alive, or a recovery, has it in hand
    DONE = "done"
    FIRST = "first"
    AGAIN = "again"  # an earlier try may have happened: settle before performing
    ABSENT = "absent"  # an earlier try has certainly not happened


@dataclass(frozen=True, slots=True)
class Intent:
    """The answer, with the result of an effect that is done."""

    standing: Standing
    result: str | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """An intent in doubt, as a recovery sees it."""

    effect_key: str
    kind: str
    token: str
    state: str
    job_id: UUID | None
    claim_seq: int | None
    holds_claim: bool
    perform_count: int
    intended_at: datetime


async def intend(
    db: Db, worker: str, claim: Claim, *, effect_key: str, kind: str, token: str, holds_claim: bool, nonce: UUID
) -> Intent:
    """Commit the intent of an effect under *claim*.

    An effect that is done stays done. One that was intended under a claim that
    is no longer alive passes to this one, and the mark of the earlier one no
    longer counts. The same *nonce* again gets the same answer.
    """
    row = await db.fetchrow(
        sql("effects/intend"), claim.job_id, claim.claim_seq, worker, effect_key, kind, token, holds_claim, nonce
    )
    return Intent(Standing(row["verdict"]), row["result"]) if row is not None else Intent(Standing.LOST)


async def mark(db: Db, effect_key: str, claim: Claim, result: str | None, outcome: str = "done") -> bool:
    """Record that the effect has happened; False when another claim or a recovery has taken it over."""
    marked = await db.fetchval(sql("effects/mark"), effect_key, claim.job_id, claim.claim_seq, result, outcome)
    return marked is not None


async def marked_by(db: Db, effect_key: str, claim: Claim) -> bool:
    """Whether the effect is done and *claim* was the last to intend it."""
    return bool(
        await db.fetchval(
            "select true from penstock.effects "
            "where effect_key = $1 and job_id = $2 and claim_seq = $3 and state = 'done'",
            effect_key,
            claim.job_id,
            claim.claim_seq,
        )
    )


async def doubt(db: Db, effect_key: str, claim: Claim) -> None:
    """Record that nobody can tell whether the effect has happened."""
    await db.fetchval(sql("effects/leave"), effect_key, claim.job_id, claim.claim_seq, "uncertain")


async def disprove(db: Db, effect_key: str, claim: Claim) -> None:
    """Record that the try of *claim* has certainly not happened: the next one need not ask."""
    await db.fetchval(sql("effects/leave"), effect_key, claim.job_id, claim.claim_seq, "abandoned")


async def note(db: Db, effect_key: str, action: str, outcome: str) -> None:
    """Record a try: every one leaves a row."""
    await db.execute(
        "insert into penstock.effect_attempts (effect_key, at, action, outcome) values ($1, penstock.now(), $2, $3)",
        effect_key,
        action,
        outcome,
    )


async def of_job(db: Db, job_id: UUID) -> list[asyncpg.Record]:
    """The effects of a job, in the order of their intents."""
    return await db.fetch("select * from penstock.effects where job_id = $1 order by intended_at", job_id)


async def open_intents(db: Db, kind: str) -> list[asyncpg.Record]:
    """Every effect of *kind* that is in doubt, oldest first."""
    return await db.fetch(
        "select * from penstock.effects where kind = $1 and state in ('intended', 'uncertain') order by intended_at",
        kind,
    )


async def adopt(
    db: Db, kind: str, *, recovery: str, lease: timedelta, older: timedelta, limit: int = 100
) -> list[Open]:
    """Take over intents of *kind* whose claims are dead and that are at least *older* old.

    They belong to *recovery* for *lease*; a second recovery gets others, or
    none. Its next steps are to ask the outside world and to call `found` or
    `abandon`.
    """
    rows = await db.fetch(sql("effects/adopt"), kind, recovery, lease, older, limit)
    return [Open(*row) for row in rows]


async def found(db: Db, effect_keys: Sequence[str], *, recovery: str, result: str | None) -> set[str]:
    """Mark adopted intents as done; returns those that were still this recovery's."""
    return {row[0] for row in await db.fetch(sql("effects/found"), effect_keys, recovery, result)}


async def abandon(db: Db, effect_keys: Sequence[str], *, recovery: str) -> set[str]:
    """Give adopted intents up after a proven absence; jobs they held go back uncharged (C-36)."""
    return {row[0] for row in await db.fetch(sql("effects/abandon"), effect_keys, recovery)}


async def resolve(db: Db, effect_key: str, *, happened: bool, who: str, result: str | None = None) -> str | None:
    """An operator says whether the effect happened; returns the state now, None when there is no such effect.

    One that is done or given up stays so. One that a live claim or a recovery
    has in hand raises `StepRefused`: it may be happening at this moment.
    """
    try:
        state: str | None = await db.fetchval(
            "select penstock.resolve_effect($1, $2, $3, $4)", effect_key, happened, who, result
        )
    except asyncpg.ObjectInUseError:
        raise StepRefused(
            f"effect {effect_key} is being performed or recovered right now; wait until its job has ended "
            "or its lease has expired"
        ) from None
    return state
