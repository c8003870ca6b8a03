"""A claim: one worker's right to one job, for one lease."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta
    from uuid import UUID


class Trigger(StrEnum):
    """What started a run."""

    STARTUP = "startup"
    NOTIFY = "notify"
    POLL = "poll"  # also: a job fell due, a lease expired
    SCHEDULE = "schedule"
    ADMIN = "admin"
    FOLLOW_UP = "follow_up"  # the run before it filled its cap


class Claim:
    """What a claim learns about its job. `claim_seq` is the fence of every later write."""

    __slots__ = (
        "attempt_count",
        "claim_seq",
        "created_at",
        "job_id",
        "job_type",
        "limit_key",
        "max_attempts",
        "payload",
        "priority",
        "replay_of_job_id",
        "run_at",
        "stage",
        "staged",
    )

    def __init__(self, row: Iterable[Any]) -> None:
        # By position: this runs once per job, and looking names up would cost more than all the rest.
        (
            self.job_id,
            self.job_type,
            self.stage,
            self.claim_seq,
            self.attempt_count,
            self.max_attempts,
            self.staged,
            self.priority,
            self.created_at,
            self.run_at,
            self.limit_key,
            self.replay_of_job_id,
            self.payload,
        ) = row

    job_id: UUID
    job_type: str
    stage: str
    claim_seq: int
    attempt_count: int
    max_attempts: int
    staged: bool
    priority: int
    created_at: datetime
    run_at: datetime
    limit_key: str | None
    replay_of_job_id: UUID | None
    payload: str

    @property
    def attempt(self) -> int:
        """The ordinal of the attempt now running, from 1 (C-07)."""
        return self.attempt_count + 1

    def __repr__(self) -> str:
        """Ids only: a payload never gets into a trace."""
        return f"<claim {self.claim_seq} of job {self.job_id} ({self.job_type})>"


@dataclass(frozen=True, slots=True)
class Caps:
    """The bounds of one run, in jobs and in seconds (Q-85)."""

    jobs: int
    runtime: timedelta
