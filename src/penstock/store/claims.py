"""Taking jobs and ending claims: every statement that moves a job under a worker.

Each write names job, fence and worker and touches nothing when the claim has
been lost (C-31); callers learn which claims that happened to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

import asyncpg

from penstock.contract.claims import Claim
from penstock.contract.errors import LeaseLost
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.store.kept import Kept

    Transaction = asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any]
    Db = Transaction | asyncpg.Pool[Any]

PROMOTE_AT_ONCE: Final = 1000
OBSTRUCTED_AFTER: Final = "250ms"  # that the end of a claim waits for somebody's lock; see `connect.OBSTRUCTED`


class Mark(NamedTuple):
    """Where the live part of a type's ready index begins."""

    priority: int
    created_at: datetime
    job_id: UUID


START: Final = Mark(-32_768, datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


@dataclass(frozen=True, slots=True)
class Requeue:
    """A claim that goes back to the queue."""

    claim: Claim
    delay: timedelta
    charged: bool
    code: str | None = None
    message: str | None = None
    survived: bool = True  # its handler has ended by itself: a suspect is none any more


@dataclass(frozen=True, slots=True)
class Reservation:
    """A suspect that a worker has set aside, until another one may."""

    job_id: UUID
    job_type: str
    until: datetime


@dataclass(frozen=True, slots=True)
class Death:
    """A claim that ends for good, with what its dead letter says."""

    claim: Claim
    code: str
    message: str
    retryable: bool
    reason: str
    stack: str
    context: str
    attempts: int
    alert: str | None


@dataclass(frozen=True, slots=True)
class NextWake:
    """How long nothing is due; None: for as long as nobody pokes."""

    due: timedelta | None
    expiry: timedelta | None
    gate: timedelta | None
    suspect: timedelta | None = None

    def seconds(self) -> float | None:
        """The shortest of them, never negative."""
        spans = [span.total_seconds() for span in (self.due, self.expiry, self.gate, self.suspect) if span is not None]
        return max(0.0, min(spans)) if spans else None


async def take(
    db: Db | Kept,
    types: Sequence[str],
    leases: Sequence[timedelta],
    marks: Sequence[Mark],
    *,
    limit: int,
    worker: str,
    run: UUID,
) -> list[Claim]:
    """Take up to *limit* ready jobs for *worker*; the rest stay queued (Q-58)."""
    if len(types) == 1:
        rows = await db.fetch(sql("claims/take_of_one"), types[0], limit, worker, run, *marks[0], leases[0])
        return _in_order(rows)
    priorities, created, ids = zip(*marks, strict=True)
    rows = await db.fetch(sql("claims/take"), types, limit, worker, run, priorities, created, ids, leases)
    return _in_order(rows)


async def take_gated(
    db: Db | Kept, job_type: str, lease: timedelta, *, limit: int, worker: str, run: UUID
) -> list[Claim]:
    """The same for a type with limits, a pause or a breaker: nothing comes back while its gate is shut."""
    try:
        rows = await db.fetch(sql("claims/take_gated"), job_type, worker, lease, limit, run)
    except asyncpg.LockNotAvailableError:
        return []  # somebody holds the type's row: the other types of this worker do not wait for it
    return _in_order(rows)


async def reserve(
    db: Db, types: Sequence[str], *, span: timedelta, waited: timedelta, worker: str, held: Sequence[UUID] = ()
) -> Reservation | None:
    """Set a suspect of *types* aside that has *waited* so long; None when there is none to run now."""
    row = await db.fetchrow(sql("claims/reserve"), types, span, waited, worker, held)
    return Reservation(*row) if row is not None else None


async def keep_reserved(db: Db, reserved: Reservation, span: timedelta | None) -> Reservation | None:
    """Extend a reservation by *span*, or end it; None when another worker has the suspect."""
    until = await db.fetchval(sql("claims/keep_reserved"), reserved.job_id, reserved.until, span)
    return None if until is None else replace(reserved, until=until)


async def take_suspect(db: Db, reserved: Reservation, lease: timedelta, *, worker: str, run: UUID) -> list[Claim]:
    """Take the suspect that is set aside; none when it has passed to another worker or its gate has shut."""
    try:
        rows = await db.fetch(
            sql("claims/take_suspect"), reserved.job_id, reserved.job_type, reserved.until, worker, lease, run
        )
    except asyncpg.LockNotAvailableError:
        return []
    return _in_order(rows)


def _in_order(rows: Iterable[Any]) -> list[Claim]:
    """Claims as they are to be started; an UPDATE returns its rows as they lie in the table."""
    return sorted(map(Claim, rows), key=lambda claim: (claim.priority, claim.created_at, claim.job_id))


async def promote(db: Db, types: Sequence[str]) -> int:
    """Make ready what has fallen due; returns how many."""
    return _count(await db.execute(sql("claims/promote"), types, PROMOTE_AT_ONCE))


async def next_wake(db: Db, types: Sequence[str]) -> NextWake:
    """When a worker of *types* is needed next."""
    row = await db.fetchrow(sql("claims/next_wake"), types)
    return NextWake(*row) if row is not None else NextWake(None, None, None)


async def complete(db: Db, worker: str, claims: Sequence[Claim], runs: Sequence[Mapping[str, Any]] = ()) -> list[Claim]:
    """End *claims* well and save *runs*, in one statement; returns the claims that were lost.

    A short count may mean that an earlier try was committed and only its
    reply got lost; such claims are found completed and are not lost.
    """
    ids, fences = [claim.job_id for claim in claims], [claim.claim_seq for claim in claims]
    records = json.dumps(runs) if runs else None
    if await db.fetchval(sql("claims/complete"), ids, fences, worker, records, OBSTRUCTED_AFTER) == len(claims):
        return []
    return _missing(claims, await db.fetch(sql("claims/settled"), ids, fences, worker))


async def requeue(db: Db, worker: str, moves: Sequence[Requeue]) -> list[Claim]:
    """Put claims back to the queue; returns those that were lost."""
    rows = await db.fetch(
        sql("claims/requeue"),
        [move.claim.job_id for move in moves],
        [move.claim.claim_seq for move in moves],
        worker,
        [move.delay for move in moves],
        [move.charged for move in moves],
        [move.code for move in moves],
        [move.message for move in moves],
        OBSTRUCTED_AFTER,
        [move.survived for move in moves],
    )
    return _missing((move.claim for move in moves), rows)


async def fail(db: Db, worker: str, deaths: Sequence[Death]) -> list[Claim]:
    """End claims for good, each with its dead letter; returns those that were lost."""
    rows = await db.fetch(
        sql("claims/fail"),
        [death.claim.job_id for death in deaths],
        [death.claim.claim_seq for death in deaths],
        worker,
        [death.code for death in deaths],
        [death.message for death in deaths],
        [death.retryable for death in deaths],
        [death.reason for death in deaths],
        [death.stack for death in deaths],
        [death.context for death in deaths],
        [death.attempts for death in deaths],
        [death.alert for death in deaths],
        OBSTRUCTED_AFTER,
    )
    return _missing((death.claim for death in deaths), rows)


async def cancel(db: Db, worker: str, claim: Claim, note: str) -> bool:
    """End one claim as canceled; False when it was lost."""
    found = await db.fetchval(sql("claims/cancel"), claim.job_id, claim.claim_seq, worker, note, OBSTRUCTED_AFTER)
    return found is not None


async def renew(db: Db, worker: str, held: Sequence[tuple[UUID, int, timedelta]]) -> dict[UUID, bool]:
    """Extend the leases of *held* (job, fence, lease); returns the jobs still owned, and whether it could be done.

    It cannot while a transaction of somebody else holds the job's row. Nobody
    can take the job away then either, so the next try is soon enough.
    """
    ids, fences, leases = zip(*held, strict=True)
    rows = await db.fetch(sql("claims/renew"), ids, fences, worker, leases)
    return {row["job_id"]: row["renewed"] for row in rows}


async def advance(db: Db, worker: str, claim: Claim, next_stage: str, result: str | None) -> None:
    """Save the result of the claim's stage and go on to *next_stage*; a lost claim raises `LeaseLost`."""
    done = await db.fetchval(
        sql("claims/advance"), claim.job_id, claim.claim_seq, worker, next_stage, claim.stage, result, claim.staged
    )
    if done is None:
        raise LeaseLost(claim.job_id)


async def finish(db: Db, worker: str, claim: Claim) -> None:
    """Complete one claim inside the caller's transaction; a lost claim raises `LeaseLost`."""
    if await db.fetchval(sql("claims/finish"), claim.job_id, claim.claim_seq, worker) is None:
        raise LeaseLost(claim.job_id)


async def owned(db: Db, worker: str, claim: Claim) -> bool:
    """Whether *claim* still owns its job."""
    return bool(await db.fetchval(sql("claims/mine"), claim.job_id, claim.claim_seq, worker))


async def gone(db: Db, worker: str, claims: Sequence[Claim]) -> list[Claim]:
    """Those of *claims* whose jobs were taken away from them: canceled, reclaimed, deleted."""
    ids, fences = [claim.job_id for claim in claims], [claim.claim_seq for claim in claims]
    return _missing(claims, await db.fetch(sql("claims/kept"), ids, fences, worker))


async def stage_states(db: Db, job_id: UUID) -> list[asyncpg.Record]:
    """Attempts and results of each stage that a staged job has touched."""
    return await db.fetch(sql("claims/stage_states"), job_id)


async def release_orphans(db: Db, worker: str, held: Sequence[UUID], *, younger: timedelta) -> int:
    """Give back claims of *worker* that it does not hold: their reply was lost with a connection."""
    return _count(await db.execute(sql("claims/release_orphans"), worker, held, younger))


async def reap(db: Db, *, limit: int = 500) -> list[asyncpg.Record]:
    """Return expired claims to the queue, or end their jobs; (job_id, job_type, outcome) of each."""
    return await db.fetch(sql("claims/reap"), limit)


async def note_refusal(db: Db, job_type: str, state: str) -> None:
    """Alert that a trigger of the application refuses how jobs of *job_type* end; once an hour."""
    await db.execute("select penstock.note_refusal($1, $2)", job_type, state)


def _count(tag: str) -> int:
    return int(tag.rpartition(" ")[2])


def _missing(claims: Iterable[Claim], rows: Sequence[asyncpg.Record]) -> list[Claim]:
    """Those of *claims* that *rows* do not name by job and fence: one set may hold two claims of one job."""
    moved = {(row["job_id"], row["claim_seq"]) for row in rows}
    return [claim for claim in claims if (claim.job_id, claim.claim_seq) not in moved]
