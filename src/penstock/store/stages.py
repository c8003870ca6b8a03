"""Stages of a job from outside its claim: where it stands, and what a batch has brought in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from penstock.contract.claims import Claim
    from penstock.store.claims import Db


class Progress(NamedTuple):
    """Where the job of a claim stands."""

    status: str
    stage: str


class Saved(NamedTuple):
    """The result of a stage whose item a batch has settled."""

    job_id: UUID
    claim_seq: int
    stage: str
    next_stage: str
    result: str | None


async def progress(db: Db, worker: str, claim: Claim) -> Progress | None:
    """Where *claim* stands; None when another claim has taken its job."""
    row = await db.fetchrow(sql("claims/progress"), claim.job_id, claim.claim_seq, worker)
    return None if row is None else Progress(*row)


async def save(db: Db, settled: Sequence[Saved]) -> set[UUID]:
    """Save results of parked jobs and requeue them for their next stage, uncharged (C-05).

    Returns the jobs that moved. One that is no longer parked under the claim
    named, or stands at another stage, is left alone and its result is dropped.
    """
    columns = [list(column) for column in zip(*settled, strict=True)] if settled else [[]] * 5
    return {row[0] for row in await db.fetch(sql("claims/save_stage"), *columns)}
