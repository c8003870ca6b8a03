"""What a collector logs: batches on their way back, the ends of their items, and what they cost. Ids and codes only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.telemetry.events import quiet
from penstock.telemetry.logs import log

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from penstock.store.batch_items import Ending, Leased


def batch_polled(batch: Leased, status: str) -> None:
    """A batch is still on its way."""
    log.info("batch_polled", batch_id=str(batch.batch_id), job_type=batch.job_type, outcome=status)


def batch_poll_failed(batch: Leased, what: str, code: str) -> None:
    """A batch could not be asked after, or its results could not be read; nothing of it has changed."""
    log.warning("batch_poll_failed", batch_id=str(batch.batch_id), job_type=batch.job_type, what=what, error_code=code)


def batch_missing(batch: Leased) -> None:
    """The provider does not know a batch that it had; within its deadline nothing is given up."""
    log.warning("batch_missing", batch_id=str(batch.batch_id), job_type=batch.job_type)


def batch_deadline_passed(batch: Leased) -> None:
    """A batch has not ended in time: it is canceled, and what there is of it is collected (C-05)."""
    log.error("batch_deadline_passed", batch_id=str(batch.batch_id), job_type=batch.job_type)


def batch_collected(batch: Leased, status: str, states: Mapping[str, int]) -> None:
    """Every item of a batch has its end; the counts are those of this run."""
    log.info(
        "batch_collected", batch_id=str(batch.batch_id), job_type=batch.job_type, outcome=status, items=dict(states)
    )


def batch_lines_odd(batch: Leased, *, unknown: int, doubled: int, missing: int) -> None:
    """The results do not fit what was submitted: lines of nobody, items with several lines, items without one."""
    log.error(
        "batch_lines_odd",
        batch_id=str(batch.batch_id),
        job_type=batch.job_type,
        items={"unknown": unknown, "doubled": doubled, "missing": missing},
    )


def item_settled(end: Ending, batch: Leased, outcome: str, code: str | None) -> None:
    """One item of a batch has its end, and its job has moved."""
    if code is None and quiet():
        return
    write = log.info if code is None else log.warning
    write(
        "item_settled",
        job_id=str(end.job_id),
        job_type=batch.job_type,
        batch_id=str(batch.batch_id),
        batch_item_index=end.number,
        outcome=outcome,
        error_code=code,
    )


def late_result_dropped(end: Ending, batch: Leased) -> None:
    """A result came for a job that waits for it no more: superseded, canceled or gone (C-35)."""
    log.warning(
        "late_result_dropped",
        job_id=str(end.job_id),
        job_type=batch.job_type,
        batch_id=str(batch.batch_id),
        batch_item_index=end.number,
        claim_seq=end.claim_seq,
    )


def batch_files_deleted(batch_id: UUID) -> None:
    """The provider holds no files of this batch any more."""
    log.info("batch_files_deleted", batch_id=str(batch_id))


def batch_files_stayed(batch_id: UUID, code: str) -> None:
    """The files of a batch could not be deleted; it is tried again."""
    log.warning("batch_files_stayed", batch_id=str(batch_id), error_code=code)


def spend_cap_reached(job_type: str) -> None:
    """A type has spent its day's money and is paused (C-64)."""
    log.error("spend_cap_reached", job_type=job_type)


def spend_cap_lifted(job_type: str) -> None:
    """A new day, or a higher cap: the type is claimed again."""
    log.info("spend_cap_lifted", job_type=job_type)
