"""Counting how claims ended: in their runs, in the metrics, in the log; and letting go of them."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from penstock.contract.failures import FailureClass, opens_breaker
from penstock.contract.verdicts import Reason
from penstock.telemetry import events, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.contract.claims import Claim
    from penstock.engine.running import Running
    from penstock.engine.runs import Run
    from penstock.engine.workplace import Workplace
    from penstock.store import claims as store


class Tally:
    """Takes claims whose end is written. What it learns about breakers is for the recorder to tell the database."""

    def __init__(self, place: Workplace, run_over: Callable[[Run], None]) -> None:
        self._place = place
        self._run_over = run_over
        self._mends: set[str] = set()  # types with a success that ends a row of failures
        self._trips: list[tuple[str, str]] = []  # type and code of failures that count for a breaker
        self.shaky: set[str] = set()  # types whose breaker has counted a failure

    def completed(self, completed: Sequence[Running]) -> None:
        """Jobs that ended well. They are counted before the log tells of them: who reads both finds them agree."""
        seconds: dict[str, list[float]] = defaultdict(list)
        for running in completed:
            running.run.succeeded += 1
            seconds[running.claim.job_type].append(running.seconds)
            self._release(running)
        for job_type, values in seconds.items():
            metrics.ended(job_type, "success", len(values))
            metrics.processed(job_type, values)
            if job_type in self.shaky:
                self.shaky.discard(job_type)
                self._mends.add(job_type)
        if not events.quiet():
            for running in completed:
                events.job_completed(running.claim, running.seconds, log_ids(running))

    def submitted(self, submitted: Sequence[Running]) -> None:
        """Jobs that a provider's batch has now: their run has done its part, and a probe has gone well."""
        for running in submitted:
            running.run.succeeded += 1
            self._release(running)
            if running.claim.job_type in self.shaky:
                self.shaky.discard(running.claim.job_type)
                self._mends.add(running.claim.job_type)

    def left(self, running: Running) -> None:
        """A claim whose submission is for a recovery to find out about: this run knows nothing of its end."""
        running.run.lost += 1
        self._release(running)

    def requeued(self, running: Running, move: store.Requeue, *, lost: bool) -> None:
        """A claim that went back to the queue."""
        if lost:
            self.lost(running)
            return
        running.run.requeued += 1
        if move.charged and move.code is not None:
            running.run.by_error[move.code] += 1
            running.run.rate_limited += move.code == FailureClass.RATE_LIMITED
            events.job_failed(running.claim, move.code, will_retry=True, ids=log_ids(running))
        else:
            events.job_requeued(running.claim, move.code, move.delay.total_seconds())
        self._release(running)

    def died(self, running: Running, move: store.Death, *, lost: bool) -> None:
        """A job that failed for good."""
        if lost:
            self.lost(running)
            return
        claim = running.claim
        running.run.failed += 1
        running.run.by_error[move.code] += 1
        running.run.rate_limited += move.code == FailureClass.RATE_LIMITED
        metrics.ended(claim.job_type, "dead" if move.reason == Reason.BUDGET_EXHAUSTED else "failed", 1)
        metrics.processed(claim.job_type, [running.seconds])
        events.job_failed(claim, move.code, will_retry=False, ids=log_ids(running))
        self._release(running)
        if opens_breaker(FailureClass(move.code)):
            self.shaky.add(claim.job_type)
            self._trips.append((claim.job_type, move.code))

    def canceled(self, running: Running, *, lost: bool) -> None:
        """A job that its handler canceled."""
        if lost:
            self.lost(running)
            return
        running.run.canceled += 1
        self._release(running)

    def take_breakers(self) -> tuple[set[str], list[tuple[str, str]]]:
        """Types to mend and failures to count, each once."""
        mends, self._mends = self._mends, set()
        trips, self._trips = self._trips, []
        return mends, trips

    def lost(self, running: Running) -> None:
        """A claim that no longer owned its job: nothing was written."""
        running.run.lost += 1
        events.lease_lost(running.claim)
        self._release(running)

    def _release(self, running: Running) -> None:
        held = self._place.held
        if held.get(running.claim.job_id) is running:
            del held[running.claim.job_id]
        if running.claim.job_type in self._place.gated:
            self._place.gate_freed = True
        if running.run.over and running.run.finished_at is None:
            self._run_over(running.run)


def log_ids(running: Running) -> dict[str, str | None]:
    """The opaque ids of the payload that the type allows into logs; `item_id` is always there (D-67)."""
    ids: dict[str, str | None] = {"item_id": None}
    if running.job_type.log_ids:
        payload: Any = running.job_type.handlers and _members(running.claim)
        for name in running.job_type.log_ids:
            value = payload.get(name)
            ids[name] = None if value is None else str(value)[:64]
    return ids


def _members(claim: Claim) -> dict[str, Any]:
    try:
        payload = json.loads(claim.payload)
    except (ValueError, RecursionError):
        return {}
    return payload if isinstance(payload, dict) else {}
