"""The words other documents use for our six statuses (C-01, C-02, C-46, Q-17, A-14).

Only the six are stored. What comes in is translated by `canonical`, what goes
out by `edge_word`; no second status column exists that could fall out of step.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock.contract.statuses import Status
from penstock.contract.verdicts import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping


class Vocabulary(StrEnum):
    """Whose words are spoken at an edge; a policy field of the type."""

    CANONICAL = "canonical"  # the queue contract's six
    REVIEW = "review"
    DISPATCH = "dispatch"  # the job dispatch design


_MEANINGS: Final[Mapping[str, Status]] = {
    **{status.value: status for status in Status},
    "pending": Status.QUEUED,
    "retryable_failed": Status.QUEUED,
    "running": Status.PROCESSING,
    "in_progress": Status.PROCESSING,
    "succeeded": Status.COMPLETED,
    "done": Status.COMPLETED,
    "dead": Status.FAILED,
    "dead_letter": Status.FAILED,
}

_REVIEW: Final[Mapping[Status, str]] = {
    Status.QUEUED: "in_progress",  # accepted and not yet failed; the review spec has no word for waiting
    Status.PROCESSING: "in_progress",
    Status.BATCH_SUBMITTED: "in_progress",  # a provider works on it; that is progress (C-05)
    Status.COMPLETED: "succeeded",
    Status.FAILED: "dead_letter",
    Status.CANCELED: "canceled",
}

_DISPATCH: Final[Mapping[Status, str]] = {
    Status.QUEUED: "PENDING",
    Status.PROCESSING: "IN_PROGRESS",
    Status.BATCH_SUBMITTED: "IN_PROGRESS",
    Status.COMPLETED: "DONE",
    Status.FAILED: "FAILED",
    Status.CANCELED: "CANCELED",
}


def canonical(word: str) -> Status:
    """The stored status behind *word*, whichever document it comes from; case does not matter.

    Raises `ValueError` for a word of no document: a status is never guessed.
    """
    try:
        return _MEANINGS[word.strip().lower()]
    except KeyError:
        raise ValueError(f"no document has a status {word[:40]!r}; the stored words are {', '.join(Status)}") from None


def edge_word(
    vocabulary: Vocabulary | str, status: Status, attempt_count: int = 0, reason: Reason | str | None = None
) -> str:
    """The word that *vocabulary* has for a job in *status*.

    A review job that waits after a failed attempt is `retryable_failed`; a
    dispatch job that spent its budget is `DEAD`, one that could not be retried
    is `FAILED`.
    """
    match Vocabulary(vocabulary):
        case Vocabulary.CANONICAL:
            return status.value
        case Vocabulary.REVIEW:
            return "retryable_failed" if status is Status.QUEUED and attempt_count > 0 else _REVIEW[status]
        case Vocabulary.DISPATCH:
            dead = status is Status.FAILED and reason == Reason.BUDGET_EXHAUSTED
            return "DEAD" if dead else _DISPATCH[status]


def outcome_label(status: Status, reason: Reason | str | None = None) -> str | None:
    """The `status` label of `job_completed_total`: success, failed or dead; None while not counted (D-63)."""
    if status is Status.COMPLETED:
        return "success"
    if status is not Status.FAILED:
        return None
    return "dead" if reason == Reason.BUDGET_EXHAUSTED else "failed"
