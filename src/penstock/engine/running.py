"""A claim in this process: waiting, running, or waiting to be recorded."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from penstock.contract.claims import Claim
    from penstock.engine.registry import JobType
    from penstock.engine.runs import Run


class Stop(StrEnum):
    """Why a handler is being stopped."""

    LOST = "lost"  # the lease is gone
    CANCELED = "canceled"  # an operator ended the job
    TIMEOUT = "timeout"  # its time is up
    SHUTDOWN = "shutdown"  # the worker's grace is over


class Running:
    """One held claim. The heartbeat thread reads it; only the event loop writes it, but for `renewed`."""

    __slots__ = (
        "attempts",
        "claim",
        "deadline",
        "halted",
        "job_type",
        "lease",
        "recorded",
        "renewed",
        "run",
        "seconds",
        "started",
        "stop",
        "task",
    )

    def __init__(self, claim: Claim, job_type: JobType, run: Run, now: float) -> None:
        self.claim = claim
        self.job_type = job_type
        self.run = run
        self.lease = job_type.policy.lease.total_seconds()
        self.renewed = now  # monotonic time up to which the lease surely holds, less the lease
        self.deadline: float | None = None
        self.started = 0.0
        self.seconds = 0.0
        self.stop: Stop | None = None
        self.halted: float | None = None  # the loop's time when its handler was told to stop
        self.recorded = False  # job.transaction() has written the end of the stage
        self.task: asyncio.Task[None] | None = None
        self.attempts = claim.attempt_count  # failed attempts of the stage that runs

    @property
    def survived(self) -> bool:
        """Whether its handler has run, and has ended without being told to."""
        return self.started > 0 and self.stop is None

    def halt(self, why: Stop) -> None:
        """Stop the handler, for the first reason given."""
        if self.stop is None:
            self.stop = why
            if self.task is not None:
                self.halted = self.task.get_loop().time()
                self.task.cancel()
