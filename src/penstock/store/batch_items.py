"""Batches on their way back: leases of collectors, and the ends of items.

Every end names batch, item, job and claim, and moves a job only while it
waits for this very item (C-35). What comes back tells, item by item, what was
written; an item that is not among it had been settled before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    import asyncpg

    from penstock.store.claims import Db, Transaction


@dataclass(frozen=True, slots=True)
class Leased:
    """A batch that this run collects."""

    batch_id: UUID
    job_type: str
    stage: str
    adapter: str
    base_url: str
    provider: str
    model: str
    source_locale: str
    target_locale: str
    execution_mode: str
    item_count: int
    provider_batch_id: str
    input_file_id: str | None
    output_file_id: str | None
    error_file_id: str | None
    submitted_at: datetime
    deadline_at: datetime | None
    poll_failures: int
    missing_since: datetime | None
    cancel_asked_at: datetime | None
    cancel_sent_at: datetime | None
    now: datetime  # by the database's clock


@dataclass(frozen=True, slots=True)
class Polled:
    """What a poll has shown of a batch that is not collected yet."""

    after: timedelta  # until the next one
    status: str | None = None
    input_file_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    error_code: str | None = None
    missing: bool = False
    cancel_sent: bool = False


class Name(NamedTuple):
    """An item of a batch, and whether it still waits for its end."""

    number: int
    open: bool


class Ending(NamedTuple):
    """What every end of an item says."""

    number: int
    job_id: UUID
    claim_seq: int
    provider_at: datetime | None
    input_tokens: int
    output_tokens: int
    cost_micros: int


class Back(NamedTuple):
    """A job that goes back to the queue."""

    ending: Ending
    delay: timedelta
    charged: bool
    code: str
    message: str


class Onward(NamedTuple):
    """A job that goes on to its next stage."""

    ending: Ending
    stage: str
    next_stage: str
    result: str | None


class Dead(NamedTuple):
    """A job that ends for good, with what its dead letter says."""

    ending: Ending
    code: str
    message: str
    retryable: bool
    reason: str
    stack: str
    context: str
    attempts: int
    alert: str | None


End = Ending | Onward | Back | Dead


class Settled(NamedTuple):
    """The end of one item as it was written; `late`: its job waits for it no more."""

    number: int
    state: str
    paused: bool  # the type has spent its daily cap with this


# ------------------------------------------------------------------- batches


async def lease(db: Db, job_type: str, collector: str, span: timedelta, seen: Sequence[UUID] = ()) -> Leased | None:
    """Take one due batch of *job_type* that is none of *seen*; None when nothing is due or others have it."""
    row = await db.fetchrow(sql("batch_items/lease"), job_type, collector, span, list(seen))
    return None if row is None else Leased(**row)


async def renew(db: Db, batch_id: UUID, collector: str, span: timedelta) -> bool:
    """Hold on to a batch; False when another collector has it."""
    return bool(await db.fetchval(sql("batch_items/renew"), batch_id, collector, span))


async def polled(db: Db, batch_id: UUID, collector: str, poll: Polled) -> bool:
    """Keep what a poll has shown and let go of the batch; False when another collector has it."""
    files = poll.input_file_id, poll.output_file_id, poll.error_file_id
    told = poll.after, poll.status, *files, poll.error_code, poll.missing, poll.cancel_sent
    return bool(await db.fetchval(sql("batch_items/polled"), batch_id, collector, *told))


async def seen(db: Db, batch_id: UUID, collector: str, status: str, files: tuple[str | None, ...]) -> bool:
    """Keep that a batch is over and where its results are; False when another collector has it."""
    return bool(await db.fetchval(sql("batch_items/seen"), batch_id, collector, status, *files))


async def collected(db: Db, batch_id: UUID, collector: str, code: str | None) -> bool:
    """Close a batch whose items have all ended; False while one is open, or when another collector has it."""
    return bool(await db.fetchval(sql("batch_items/collected"), batch_id, collector, code))


async def open_breaker(db: Db, job_type: str, code: str) -> bool:
    """A whole batch was refused for what the next would meet too: hold the type back; True when that is new."""
    return bool(await db.fetchval("select penstock.open_breaker($1, $2, interval '0')", job_type, code))


# --------------------------------------------------------------------- items


async def names(db: Db, batch_id: UUID) -> dict[str, Name]:
    """Every item of a batch by its custom id, in order: names only, so that a batch of any size fits."""
    return {row[0]: Name(row[1], row[2]) for row in await db.fetch(sql("batch_items/names"), batch_id)}


async def read(db: Db, batch_id: UUID, numbers: Sequence[int]) -> list[asyncpg.Record]:
    """Open items with their jobs."""
    return await db.fetch(sql("batch_items/read"), batch_id, numbers)


async def stage_results(db: Db, job_ids: Sequence[UUID]) -> list[asyncpg.Record]:
    """(job_id, stage, result) of the finished stages of these jobs."""
    return await db.fetch(sql("batch_items/results"), job_ids)


async def refusals(db: Db, job_ids: Sequence[UUID]) -> dict[UUID, int]:
    """How often each of these jobs went back from a batch that was refused as a whole, and nobody said why."""
    return {row[0]: row[1] for row in await db.fetch(sql("batch_items/refusals"), job_ids)}


async def hold(db: Transaction, job_id: UUID, claim_seq: int) -> bool:
    """Lock a job that still waits for this item, until the transaction ends; False when it does not."""
    return bool(await db.fetchval(sql("batch_items/hold"), job_id, claim_seq))


async def complete(db: Db, batch_id: UUID, cap: int | None, ends: Sequence[Ending]) -> list[Settled]:
    """Accepted items on the last stage of their jobs."""
    return _settled(await db.fetch(sql("batch_items/complete"), batch_id, *_columns(ends, 7), cap))


async def advance(db: Db, batch_id: UUID, cap: int | None, ends: Sequence[Onward]) -> list[Settled]:
    """Accepted items on an earlier stage (C-05)."""
    return await _write(db, "advance", batch_id, cap, ends, 3)


async def requeue(db: Db, batch_id: UUID, cap: int | None, ends: Sequence[Back]) -> list[Settled]:
    """Items whose jobs try again."""
    return await _write(db, "requeue", batch_id, cap, ends, 4)


async def fail(db: Db, batch_id: UUID, cap: int | None, ends: Sequence[Dead]) -> list[Settled]:
    """Items whose jobs have failed for good."""
    return await _write(db, "fail", batch_id, cap, ends, 8)


async def _write(db: Db, verb: str, batch_id: UUID, cap: int | None, ends: Sequence[Any], more: int) -> list[Settled]:
    common = _columns([end.ending for end in ends], 7)
    rest = _columns([end[1:] for end in ends], more)
    return _settled(await db.fetch(sql(f"batch_items/{verb}"), batch_id, *common, cap, *rest))


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _settled(rows: Sequence[asyncpg.Record]) -> list[Settled]:
    return [Settled(row[0], row[1], row[2]) for row in rows]


# --------------------------------------------------------------------- files


async def with_files(db: Db, job_type: str, *, delete_files: bool, limit: int) -> list[asyncpg.Record]:
    """Batches whose files should go: collected ones, and what given-up submissions may have left behind."""
    return await db.fetch(sql("batch_items/list_files"), job_type, delete_files, limit)


async def count_files(db: Db, job_type: str, *, delete_files: bool) -> int:
    """How many batches of *job_type* have files that should go now."""
    return int(await db.fetchval(sql("batch_items/count_files"), job_type, delete_files))


async def files_deleted(db: Db, batch_id: UUID) -> None:
    """The provider holds nothing of this batch any more."""
    await db.execute(
        "update penstock.batches set files_deleted_at = penstock.now(), files_due_at = null "
        "where batch_id = $1 and files_deleted_at is null",
        batch_id,
    )


async def files_stayed(db: Db, batch_id: UUID, again: timedelta) -> None:
    """They could not be deleted; look at them again after a while."""
    await db.execute(
        "update penstock.batches set files_due_at = penstock.now() + $2::interval "
        "where batch_id = $1 and files_deleted_at is null",
        batch_id,
        again,
    )


async def ask_erasure(db: Db, job_ids: Sequence[UUID]) -> list[asyncpg.Record]:
    """The files of the batches of these jobs go, whatever the setting says; (batch_id, state, job_type) of each."""
    return await db.fetch(sql("batch_items/erase"), job_ids)
