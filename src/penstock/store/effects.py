"""The ledger of outside effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.store.statements import sql

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

    from penstock.contract.claims import Claim
    from penstock.store.claims import Db


@dataclass(frozen=True, slots=True)
class Intent:
    """What the ledger says after an intent: done before, or to be performed (settled first when not the first try)."""

    done: bool
    perform_count: int
    result: str | None


async def intend(
    db: Db, worker: str, claim: Claim, *, effect_key: str, kind: str, token: str, holds_claim: bool
) -> Intent | None:
    """Commit the intent of an effect under *claim*; None when the claim is lost.

    An effect that is done stays done. One that was intended before passes to
    this claim, so that the mark of the earlier one no longer counts.
    """
    row = await db.fetchrow(
        sql("effects/intend"), claim.job_id, claim.claim_seq, worker, effect_key, kind, token, holds_claim
    )
    return None if row is None else Intent(row["done"], row["perform_count"], row["result"])


async def mark(db: Db, effect_key: str, claim: Claim, result: str | None) -> bool:
    """Record that the effect has happened; False when another claim has taken it over."""
    return await db.fetchval(sql("effects/mark"), effect_key, claim.job_id, claim.claim_seq, result) is not None


async def doubt(db: Db, effect_key: str) -> None:
    """Record that nobody can tell whether the effect has happened."""
    await db.execute(
        "update penstock.effects set state = 'uncertain' where effect_key = $1 and state = 'intended'", effect_key
    )


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
