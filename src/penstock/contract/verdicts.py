"""How an attempt ended, as one value, and the rule that decides it.

The executor returns what happened; `judge` turns a failure into a verdict;
one place writes it. Nothing else decides about retries.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from penstock.contract import backoff as backoffs
from penstock.contract.classify import Failure
from penstock.contract.failures import FailureClass, pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.contract.calls import Request
    from penstock.contract.policies import Policy


class Reason(StrEnum):
    """Why a job went to dead letter (C-02)."""

    NON_RETRYABLE = "non_retryable"
    BUDGET_EXHAUSTED = "budget_exhausted"
    INTEGRITY = "integrity"


@dataclass(frozen=True, slots=True)
class Completed:
    """The last stage is done."""


@dataclass(frozen=True, slots=True)
class Advanced:
    """A stage that is not the last is done; its result is saved and the next one runs."""

    next_stage: str
    result: str | None


@dataclass(frozen=True, slots=True)
class Retried:
    """The attempt failed and its budget is not spent: back to the queue, one attempt poorer."""

    delay: timedelta
    failure: Failure


@dataclass(frozen=True, slots=True)
class Died:
    """The job has failed for good and gets a dead letter."""

    reason: Reason
    failure: Failure
    alert: str | None  # the severity to alert with, if any


@dataclass(frozen=True, slots=True)
class Requeued:
    """Back to the queue without an attempt used: a snooze, an overflow, a shutdown."""

    delay: timedelta
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The handler asked to cancel its job."""

    note: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """Already written by `job.transaction()`, together with the application's own rows (C-60)."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is gone: nothing is written, nothing is counted (C-31)."""


@dataclass(frozen=True, slots=True)
class Parked:
    """Not an end: the claim is kept until its request has been submitted in a batch, or given back."""

    request: Request


Verdict = Completed | Advanced | Retried | Died | Requeued | Ended | Recorded | Lost | Parked


def alarms(verdict: Verdict) -> bool:
    """Whether the next job of the type would probably fail likewise, so that its breaker must hear of it first."""
    return type(verdict) is Died and verdict.failure.opens_breaker


def judge(failure: Failure, attempts: int, budget: int, policy: Policy, random: Callable[[], float]) -> Retried | Died:
    """Decide about a failed attempt.

    *attempts* counts the failed attempts of this stage with this one included:
    increment first, then the job ends if the count has reached the budget (C-08).
    """
    if not failure.retryable:
        return Died(Reason.NON_RETRYABLE, failure, _alert(failure))
    if attempts >= budget:
        return Died(Reason.BUDGET_EXHAUSTED, failure, None)
    return Retried(backoffs.delay(policy.backoff, attempts, failure.retry_after, random), failure)


def uncertain() -> Died:
    """An outside effect may have happened and nobody can tell: a person must look before anything is repeated."""
    return Died(Reason.INTEGRITY, Failure(FailureClass.CONFLICT, retryable=False), "alert")


def _alert(failure: Failure) -> str | None:
    """A bug pages; a rejection that nobody expected is escalated (E-10, E-11)."""
    if pages(failure.error_class):
        return "page"
    if failure.error_class is FailureClass.POLICY_REJECTED and not failure.expected:
        return "escalation"
    return None
