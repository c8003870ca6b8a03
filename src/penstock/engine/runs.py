"""A run: one bounded stretch of work, and what it came to (Q-77 to Q-79)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.keys import uuid7
from penstock.contract.texts import clean_text

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.contract.claims import Caps, Trigger

_COUNTS: Final = ("claimed", "succeeded", "failed", "requeued", "canceled", "lost", "rate_limited")
NAME_LIMIT: Final = 200  # characters of a provider and its model, or of an error's code


class Run:
    """Counts of one run. It is over when it claims no more and all its claims have ended.

    Drains of one worker and one group of types within a minute share one
    record: each is *part* of a run that no job belongs to and that sums them up
    as they end. It has their id, which their jobs carry.
    """

    __slots__ = (
        "by_error",
        "by_model",
        "canceled",
        "caps",
        "claimed",
        "claiming",
        "failed",
        "finished_at",
        "function",
        "granted",
        "left_waiting",
        "lost",
        "part_of",
        "rate_limited",
        "requeued",
        "run_id",
        "started_at",
        "started_mono",
        "succeeded",
        "trigger",
    )

    def __init__(
        self, function: str, trigger: Trigger, caps: Caps, started_mono: float, part_of: Run | None = None
    ) -> None:
        self.run_id: UUID = uuid7() if part_of is None else part_of.run_id
        self.part_of = part_of
        self.function = function
        self.trigger = trigger
        self.caps = caps
        self.started_mono = started_mono
        self.started_at = datetime.now(UTC)
        self.finished_at: datetime | None = None
        self.claiming = True
        self.claimed = self.succeeded = self.failed = self.requeued = self.canceled = self.lost = 0
        self.granted = 0  # what its parts have claimed, ended or not
        self.rate_limited = 0
        self.left_waiting: int | None = None
        self.by_model: Counter[str] = Counter()
        self.by_error: Counter[str] = Counter()

    @property
    def ended(self) -> int:
        """How many of its claims have ended."""
        return self.succeeded + self.failed + self.requeued + self.canceled + self.lost

    @property
    def over(self) -> bool:
        """Whether nothing of it is open."""
        return not self.claiming and self.ended >= self.claimed

    def room(self, now: float) -> int:
        """How many more jobs it may take at *now*: none once its time is up (Q-52)."""
        if now - self.started_mono >= self.caps.runtime.total_seconds():
            return 0
        return self.caps.jobs - self.claimed

    def count_calls(self, provider: str, model: str, count: int = 1) -> None:
        """Count provider calls (Q-79). The names are a handler's: what could not be stored is escaped."""
        self.by_model[clean_text(f"{provider}/{model}", NAME_LIMIT)] += count

    def count_error(self, code: str) -> None:
        """Count an error by its class, or by a code of the application's own (Q-79)."""
        self.by_error[clean_text(code, NAME_LIMIT)] += 1

    def finish(self) -> None:
        """Stamp the end."""
        self.finished_at = datetime.now(UTC)

    def absorb(self, part: Run) -> None:
        """Add a drain that is over. The first of them says when and why it all began."""
        if self.claimed == 0:
            self.trigger, self.started_at = part.trigger, part.started_at
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(part, name))
        self.by_model += part.by_model
        self.by_error += part.by_error
        self.finished_at = part.finished_at

    def row(self, worker_id: str, profile: str) -> dict[str, Any]:
        """The record as stored in `penstock.runs`."""
        return {
            "run_id": str(self.run_id),
            "function": self.function,
            "trigger": str(self.trigger),
            "worker_id": worker_id,
            "profile": profile,
            "seconds": ((self.finished_at or datetime.now(UTC)) - self.started_at).total_seconds(),
            "max_jobs_per_run": self.caps.jobs,
            "max_runtime_seconds": max(1, round(self.caps.runtime.total_seconds())),
            "claimed_count": self.claimed,
            "succeeded_count": self.succeeded,
            "failed_count": self.failed,
            "requeued_count": self.requeued,
            "canceled_count": self.canceled,
            "lost_count": self.lost,
            "left_waiting_count": self.left_waiting,
            "rate_limited_count": self.rate_limited,
            "by_model": dict(self.by_model),
            "by_error": dict(self.by_error),
        }
