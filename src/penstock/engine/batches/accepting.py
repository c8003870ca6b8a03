"""Judging answers: every answer of a set is shown to its type's `accept`, and none of them can hurt another."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.contract.classify import Failure, classify
from penstock.contract.errors import Failed, SettingsInvalid
from penstock.contract.failures import FailureClass
from penstock.contract.verdicts import Requeued
from penstock.engine.callables import is_async
from penstock.engine.failing import asked_for, outcome
from penstock.telemetry.redaction import redact_stack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.contract.calls import Answer
    from penstock.contract.policies import Policy
    from penstock.engine.batches.lane import LaneStage
    from penstock.engine.batches.settling import Item


@dataclass(frozen=True, slots=True)
class Accepted:
    """The type has taken the answer and made *result* of it."""

    result: Any = field(repr=False)
    args: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no answer that counts. The stack holds types and frames, no word of anybody."""

    failure: Failure
    stack: str = ""
    snooze: timedelta | None = None  # the type asks to come back later, uncharged


async def accept_all(lane: LaneStage | None, policy: Policy, items: Sequence[Item]) -> list[Accepted | Refused]:
    """One verdict for each of *items*, in their order.

    A plain `accept` may be heavy: a whole set of them runs in one thread, so
    that leases are renewed meanwhile. An async one has the time limit of its
    stage.
    """
    if not items:
        return []
    if lane is None:
        gone = SettingsInvalid(f"type {policy.job_type!r} no longer asks a model in this stage; deploy it again")
        return [refused(gone, policy) for _ in items]
    if is_async(lane.accept):
        return [await _accept(lane, policy, item) for item in items]
    verdicts = await asyncio.to_thread(lambda: [_accept_plain(lane, policy, item) for item in items])
    return [await _finished(verdict, policy, item) for verdict, item in zip(verdicts, items, strict=True)]


def refused(error: BaseException | Failure | None, policy: Policy | None = None) -> Refused:
    """Why an item has no answer that counts, as one failure."""
    if error is None:
        return Refused(Failure(FailureClass.RUNTIME_BUG, retryable=False))
    if isinstance(error, Failure):
        return Refused(error)
    asked = asked_for(error, messages=False)
    if isinstance(asked, Requeued):
        return Refused(Failure(FailureClass.RATE_LIMITED, retryable=True), snooze=asked.delay)
    cause = outcome(error)
    if isinstance(cause, TimeoutError):
        return Refused(Failure(FailureClass.HANDLER_TIMEOUT, retryable=True), redact_stack(error, messages=False))
    failure = classify(
        error,
        idempotent=policy is None or policy.idempotent,
        unknown_retryable=policy is not None and policy.unknown_retryable,
        now=datetime.now(UTC),
    )
    plain = isinstance(cause, Failed)  # says it all in its class
    return Refused(failure, "" if plain else redact_stack(error, messages=False))


async def _accept(lane: LaneStage, policy: Policy, item: Item) -> Accepted | Refused:
    limit = policy.timeout_of(item.job.stage)
    try:
        args = lane.decode(item.row["payload"])
        async with asyncio.timeout(None if limit is None else limit.total_seconds()):
            return Accepted(await lane.accept(item.job, args, _fitting(lane, item)), args)
    except Exception as error:
        return refused(error, policy)


def _accept_plain(lane: LaneStage, policy: Policy, item: Item) -> Accepted | Refused:
    try:
        args = lane.decode(item.row["payload"])
        return Accepted(lane.accept(item.job, args, _fitting(lane, item)), args)
    except Exception as error:
        return refused(error, policy)


async def _finished(verdict: Accepted | Refused, policy: Policy, item: Item) -> Accepted | Refused:
    """A plain function may also return something to wait for."""
    if not isinstance(verdict, Accepted) or not inspect.isawaitable(verdict.result):
        return verdict
    limit = policy.timeout_of(item.job.stage)
    try:
        async with asyncio.timeout(None if limit is None else limit.total_seconds()):
            return Accepted(await verdict.result, verdict.args)
    except Exception as error:
        return refused(error, policy)


def _fitting(lane: LaneStage, item: Item) -> Answer:
    """The answer, checked against the lane's schema as a single call's is: `accept` sees nothing else (A-94)."""
    assert item.line.answer is not None  # noqa: S101 - only lines with an answer are judged
    return lane.fitting(item.line.answer)
