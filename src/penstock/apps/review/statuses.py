"""How a review stands, in the words of its contract (C-01, C-46)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.review import repository
from penstock.apps.review.models import Review
from penstock.contract.errors import NotFound
from penstock.contract.statuses import Status
from penstock.contract.words import Vocabulary, edge_word

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.store.claims import Db
    from penstock.store.connect import Record


def status_word(status: str, failed_attempts: int) -> str:
    """`in_progress` while it is waited for or worked on, `retryable_failed` while it waits after a failed attempt.

    *failed_attempts* are those of the stage that it is in: a stage that has
    succeeded in the end leaves nothing to retry (N-19).
    """
    return edge_word(Vocabulary.REVIEW, Status(status), failed_attempts)


async def read_review(db: Db, review_id: UUID) -> Review:
    """The review with its findings, once all of them are there, and with how far everybody has been told."""
    row = await repository.read_row(db, review_id)
    if row is None:
        raise NotFound("review", review_id)
    complete = row["parts"] is not None and row["answered"] >= row["parts"]
    findings = (await repository.load_parts(db, review_id)).findings if complete else None
    deliveries = await repository.read_deliveries(db, review_id)
    return review_of(row).model_copy(update={"findings": findings, "deliveries": tuple(deliveries)})


async def list_reviews(db: Db, changelist_id: str | None = None, *, limit: int = 50) -> list[Review]:
    """The newest reviews, without findings and deliveries."""
    return [review_of(row) for row in await repository.list_rows(db, changelist_id, limit)]


def review_of(row: Record) -> Review:
    """One row as a review."""
    return Review(
        review_id=row["review_id"],
        job_id=row["job_id"],
        changelist_id=row["changelist_id"],
        review_version=row["review_version"],
        label=row["label"],
        status=status_word(row["status"], row["failed_attempts"]),
        stage=row["stage"],
        created_at=row["created_at"],
        superseded_by_job_id=row["superseded_by_job_id"],
    )
