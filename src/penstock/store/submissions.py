"""Batches on their way to a provider: intents, marks, and what a recovery does about a doubt (C-36).

The row of the batch is the fence of its submission: every write here names the
state it found and who has it in hand, so of a submitter and a recovery that
meet only one moves the jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.store import alerts, effects
from penstock.store.statements import sql
from penstock.store.transactions import transaction

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from penstock.contract.groups import BatchKey
    from penstock.store.claims import Db


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a batch: whose it is, under which claim."""

    job_id: UUID
    claim_seq: int
    attempt: int
    custom_id: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A batch that no provider has heard of yet."""

    batch_id: UUID
    job_type: str
    stage: str
    key: BatchKey
    run_id: UUID
    body_bytes: int
    body_sha256: str
    items: Sequence[Item]


@dataclass(frozen=True, slots=True)
class Intended:
    """The claims that were still their worker's; the intent stands only if that is all of them."""

    at: datetime  # by the database's clock
    owned: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Taken:
    """What the provider said about a batch that it has."""

    provider_batch_id: str
    input_file_id: str | None
    expires_at: datetime | None
    window: timedelta  # stands in for a missing expiry
    margin: timedelta


@dataclass(frozen=True, slots=True)
class Marked:
    """Whether the mark was made, and the jobs that now wait for the batch."""

    marked: bool
    jobs: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Released:
    """The jobs that went back, and whether that has opened the breaker of their type."""

    jobs: frozenset[UUID]
    opened: bool


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A submission in doubt, as a recovery sees it."""

    batch_id: UUID
    adapter: str
    base_url: str
    provider: str
    model: str
    item_count: int
    created_at: datetime


async def intend(db: Db, worker: str, draft: Draft) -> Intended:
    """Commit the batch, its items and their effects, unless one of the claims has been lost."""
    row = await db.fetchrow(
        sql("batches/intend"),
        draft.batch_id,
        draft.job_type,
        draft.stage,
        draft.key.adapter,
        draft.key.base_url,
        *draft.key.group,
        draft.body_bytes,
        draft.body_sha256,
        worker,
        [item.job_id for item in draft.items],
        [item.claim_seq for item in draft.items],
        [item.attempt for item in draft.items],
        [item.custom_id for item in draft.items],
        draft.run_id,
    )
    assert row is not None  # noqa: S101 - a select without a table has one row
    return Intended(row["at"], frozenset(row["owned"]))


async def in_hand(db: Db, batch_id: UUID) -> bool:
    """Whether the submission is still its submitter's: asked right before the provider is told to begin."""
    return bool(
        await db.fetchval(
            "select true from penstock.batches where batch_id = $1 and state = 'building' and collector is null",
            batch_id,
        )
    )


async def mark(
    db: Db, batch_id: UUID, taken: Taken, *, worker: str | None = None, recovery: str | None = None
) -> Marked:
    """The provider has it: its jobs wait there from now on. Only the *worker* or the *recovery* in hand may say so."""
    row = await db.fetchrow(
        sql("batches/mark"),
        batch_id,
        taken.provider_batch_id,
        taken.input_file_id,
        taken.expires_at,
        taken.window,
        taken.margin,
        worker,
        recovery,
    )
    assert row is not None  # noqa: S101 - the same
    return Marked(row["marked"], frozenset(row["moved"]))


async def standing(db: Db, batch_id: UUID) -> tuple[str, str | None]:
    """The state of a batch, and the provider's id of it."""
    row = await db.fetchrow("select state, provider_batch_id from penstock.batches where batch_id = $1", batch_id)
    return (row["state"], row["provider_batch_id"]) if row is not None else ("abandoned", None)


async def release(
    db: Db, worker: str, batch_id: UUID, code: str, upstream_code: str | None, *, delay: timedelta, opens_breaker: bool
) -> Released:
    """It certainly was not taken: its jobs go back with no attempt used, and the type may be held back (C-37 e)."""
    row = await db.fetchrow(sql("batches/release"), batch_id, worker, code, delay, opens_breaker, upstream_code)
    assert row is not None  # noqa: S101 - the same
    return Released(frozenset(row["moved"]), bool(row["opened"]))


async def hold_back(db: Db, job_type: str, code: str, why: str, span: timedelta) -> None:
    """Open the breaker of a type whose provider cannot even be asked, and tell a person, once while it stays open."""
    async with transaction(db) as tx:
        if await tx.fetchval("select penstock.open_breaker($1, $2, $3)", job_type, code, span):
            subject = {"job_type": job_type, "code": code, "why": why}
            await alerts.raise_alert(tx, "batch_submission_refused", alerts.Severity.ALERT, subject)


async def doubt(db: Db, worker: str, batch_id: UUID, code: str) -> None:
    """Nobody can tell: the jobs stay held until a recovery has found out."""
    await db.execute(sql("batches/doubt"), batch_id, worker, code)


async def adopt(db: Db, job_type: str, *, recovery: str, lease: timedelta, limit: int) -> list[Unsettled]:
    """Take over submissions in doubt that nobody alive has in hand; they belong to *recovery* for *lease*."""
    return [Unsettled(*row) for row in await db.fetch(sql("batches/adopt"), job_type, recovery, lease, limit)]


async def missing(db: Db, batch_id: UUID, *, recovery: str, grace: timedelta) -> bool:
    """Note that the provider does not show it; True when that has been so for *grace*."""
    return bool(await db.fetchval(sql("batches/missing"), batch_id, recovery, grace))


async def abandon(db: Db, batch_id: UUID, *, recovery: str, watch: timedelta) -> int:
    """Give it up: its jobs go back with no attempt used; returns how many intents that were."""
    async with transaction(db) as tx:
        keys = [row["effect_key"] for row in await tx.fetch(sql("batches/abandon"), batch_id, recovery, watch)]
        return len(await effects.abandon(tx, keys, recovery=recovery)) if keys else 0


async def leave(db: Db, batch_id: UUID, *, recovery: str, code: str | None, patience: timedelta) -> None:
    """Leave it to the next recovery; a person hears of one that has been open for longer than *patience*."""
    await db.execute(sql("batches/leave"), batch_id, recovery, code, patience)


async def watched(db: Db, job_type: str, *, limit: int) -> list[Unsettled]:
    """Submissions that were given up and are to be looked for once more."""
    return [Unsettled(*row) for row in await db.fetch(sql("batches/watch"), job_type, limit)]


async def orphaned(db: Db, batch_id: UUID, provider_batch_id: str) -> None:
    """One of them has turned up and was cancelled."""
    await db.execute(sql("batches/orphan"), batch_id, provider_batch_id)


async def count_open(db: Db, job_type: str) -> int:
    """How many batches of *job_type* wait for an answer, or for somebody to find out what became of them."""
    count: int = await db.fetchval(sql("batches/count_open"), job_type)
    return count
