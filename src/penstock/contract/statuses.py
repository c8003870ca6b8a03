"""The six statuses and the moves between them (C-01, C-03).

The database holds the same table as a trigger, so that a hand-typed UPDATE
meets the same rule; a test compares the two.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import IllegalMove

if TYPE_CHECKING:
    from collections.abc import Mapping


class Status(StrEnum):
    """Where a job stands. These six words are the only ones stored."""

    QUEUED = "queued"
    PROCESSING = "processing"
    BATCH_SUBMITTED = "batch_submitted"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def terminal(self) -> bool:
        """Whether the job has ended; no move leads out of such a status."""
        return self in TERMINAL


class Move(StrEnum):
    """What can happen to a job."""

    CLAIM = "claim"
    PARK = "park"  # handed to a provider batch; the claim is closed
    COMPLETE = "complete"
    FAIL = "fail"
    REQUEUE = "requeue"
    CANCEL = "cancel"


TERMINAL: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELED})

MOVES: Final[Mapping[tuple[Status, Move], Status]] = {
    (Status.QUEUED, Move.CLAIM): Status.PROCESSING,
    (Status.PROCESSING, Move.PARK): Status.BATCH_SUBMITTED,
    (Status.PROCESSING, Move.COMPLETE): Status.COMPLETED,
    (Status.PROCESSING, Move.FAIL): Status.FAILED,
    (Status.PROCESSING, Move.REQUEUE): Status.QUEUED,
    (Status.BATCH_SUBMITTED, Move.COMPLETE): Status.COMPLETED,
    (Status.BATCH_SUBMITTED, Move.FAIL): Status.FAILED,
    (Status.BATCH_SUBMITTED, Move.REQUEUE): Status.QUEUED,
    (Status.QUEUED, Move.CANCEL): Status.CANCELED,
    (Status.PROCESSING, Move.CANCEL): Status.CANCELED,
    (Status.BATCH_SUBMITTED, Move.CANCEL): Status.CANCELED,
}

RANKS: Final[Mapping[Status, int]] = {
    Status.QUEUED: 0,
    Status.PROCESSING: 1,
    Status.BATCH_SUBMITTED: 2,
    Status.COMPLETED: 3,
    Status.FAILED: 3,
    Status.CANCELED: 3,
}


def after(status: Status, move: Move) -> Status:
    """Return the status that *move* leads to; a pair outside MOVES is a bug."""
    try:
        return MOVES[status, move]
    except KeyError:
        raise IllegalMove(status, move) from None
