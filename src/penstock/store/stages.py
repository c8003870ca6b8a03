"""Stages of a job from outside its claim: where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.store.statements import sql

if TYPE_CHECKING:
    from penstock.contract.claims import Claim
    from penstock.store.claims import Db


class Progress(NamedTuple):
    """Where the job of a claim stands."""

    status: str
    stage: str


async def progress(db: Db, worker: str, claim: Claim) -> Progress | None:
    """Where *claim* stands; None when another claim has taken its job."""
    row = await db.fetchrow(sql("claims/progress"), claim.job_id, claim.claim_seq, worker)
    return None if row is None else Progress(*row)
