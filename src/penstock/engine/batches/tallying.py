"""Counting how items ended: in the run, in the metrics, in the log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.contract.failures import FailureClass, opens_breaker
from penstock.contract.verdicts import Reason
from penstock.store.batch_items import Back, Dead, Ending
from penstock.telemetry import item_events as events
from penstock.telemetry import metrics

if TYPE_CHECKING:
    from penstock.engine.functions import RunHandle
    from penstock.store.batch_items import End, Leased, Settled


@dataclass(slots=True)
class Tally:
    """What a run of a collector came to."""

    handle: RunHandle
    states: Counter[str] = field(default_factory=Counter)
    stuck: int = 0  # items whose end cannot be written: a trigger of the application refuses all of them
    _trips: list[str] = field(default_factory=list)

    def settled(self, batch: Leased, end: End, done: Settled) -> None:
        """One item has its end, and it is written."""
        self.states[done.state] += 1
        code = end.code if isinstance(end, Back | Dead) else None
        match done.state:
            case "completed" | "advanced":
                self.handle.count(claimed=1, succeeded=1)
            case "late":
                self.handle.count(claimed=1, lost=1)
            case "failed":
                self.handle.count(claimed=1, failed=1)
            case _:
                self.handle.count(claimed=1, requeued=1)
        if code is not None and done.state in ("retried", "failed"):
            self.handle.count_error(code, rate_limited=code == FailureClass.RATE_LIMITED)
        self._tell(batch, end, done, code)
        if done.paused:
            events.spend_cap_reached(batch.job_type)

    def take_trips(self) -> list[str]:
        """The failures that count for the type's breaker, each once."""
        trips, self._trips = self._trips, []
        return trips

    def _tell(self, batch: Leased, end: End, done: Settled, code: str | None) -> None:
        metrics.item_ended(batch.job_type, done.state)
        ending = end if isinstance(end, Ending) else end.ending
        if done.state == "late":
            events.late_result_dropped(ending, batch)
            return
        if done.state == "completed":
            metrics.ended(batch.job_type, "success", 1)
        elif done.state == "failed" and isinstance(end, Dead):
            metrics.ended(batch.job_type, "dead" if end.reason == Reason.BUDGET_EXHAUSTED else "failed", 1)
            if opens_breaker(FailureClass(end.code)):
                self._trips.append(end.code)
        events.item_settled(ending, batch, done.state, code)
