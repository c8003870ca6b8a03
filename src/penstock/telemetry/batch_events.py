"""Log lines about batches on their way to a provider: ids, counts and codes, never a provider's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.telemetry.logs import log

if TYPE_CHECKING:
    from uuid import UUID


def batch_submitted(batch_id: UUID, job_type: str, items: int, body_bytes: int) -> None:
    """The provider has a batch, and its jobs wait there."""
    log.info("batch_submitted", batch_id=str(batch_id), job_type=job_type, items=items, body_bytes=body_bytes)


def batch_released(batch_id: UUID, job_type: str, items: int, code: str, *, breaker_opened: bool) -> None:
    """The provider has certainly not taken it; its jobs went back with no attempt used (C-37 e)."""
    log.warning(
        "batch_released",
        batch_id=str(batch_id),
        job_type=job_type,
        items=items,
        code=code,
        breaker_opened=breaker_opened,
    )


def batch_uncertain(batch_id: UUID, job_type: str, items: int, code: str) -> None:
    """Nobody can tell whether the provider has it; a recovery will ask."""
    log.warning("batch_uncertain", batch_id=str(batch_id), job_type=job_type, items=items, code=code)


def batch_lost(batch_id: UUID, job_type: str, items: int) -> None:
    """A recovery has taken the submission over: whatever its submitter still says does not count."""
    log.warning("batch_lost", batch_id=str(batch_id), job_type=job_type, items=items)


def batch_recovered(batch_id: UUID, job_type: str, items: int, outcome: str, code: str | None = None) -> None:
    """What a recovery has found out about a submission in doubt."""
    log.warning("batch_recovered", batch_id=str(batch_id), job_type=job_type, items=items, outcome=outcome, code=code)
