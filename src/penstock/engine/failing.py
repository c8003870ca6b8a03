"""What a handler's exception means for its job: one outcome, one failure, one verdict."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from penstock.contract.classify import Failure, classify
from penstock.contract.errors import Cancel, EffectUncertain, LeaseLost, Snooze
from penstock.contract.failures import FailureClass
from penstock.contract.verdicts import Died, Ended, Lost, Requeued, Retried, judge, uncertain
from penstock.telemetry.redaction import message_of, redact_stack, redact_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.engine.running import Running

LONGEST_SNOOZE: Final = timedelta(days=3650)  # later times are no plan, and the calendar of the database ends


def outcome(error: BaseException) -> BaseException:
    """*error*, or the only one in its group: a handler's task group does not hide a snooze."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def asked_for(error: BaseException, *, messages: bool) -> Requeued | Ended | Lost | None:
    """What raising *error* asks for; None when the attempt has failed.

    One that cannot be read, as a snooze of NaN seconds, asks for nothing: it
    is a bug of the handler and fails like any other. This runs where nobody
    could catch what it raises, and what it looks at may raise anything.
    """
    try:
        match asked := outcome(error):
            case LeaseLost():
                return Lost()
            case Snooze():
                return Requeued(_snoozed(asked))
            case Cancel():
                return Ended(_note(asked, messages=messages))
    except BaseException:
        return None
    return None


def _snoozed(snooze: Snooze) -> timedelta:
    """The delay asked for, in the bounds of the calendar; a number counts as seconds."""
    delay: object = snooze.delay
    if isinstance(delay, int | float):
        if delay != delay:  # noqa: PLR0124 - NaN
            raise ValueError("a job cannot be put off by NaN seconds")
        delay = timedelta(seconds=min(max(delay, 0), LONGEST_SNOOZE.total_seconds()))
    if not isinstance(delay, timedelta):
        return timedelta(0)
    return min(max(delay, timedelta(0)), LONGEST_SNOOZE)


def _note(cancel: Cancel, *, messages: bool) -> str:
    """What the handler said, redacted; nothing of it for types whose text is private (C-52)."""
    said = redact_text(message_of(cancel)) if messages else ""
    return said or "canceled by its handler"


def judged(running: Running, error: BaseException, random: Callable[[], float]) -> tuple[Retried | Died, str]:
    """The verdict on an attempt that raised *error*, and its redacted stack."""
    policy = running.job_type.policy
    running.attempts += 1
    stack = redact_stack(error, messages=policy.error_messages)
    if _is_uncertain(error):
        return uncertain(), stack
    failure = classify(
        error, idempotent=policy.idempotent, unknown_retryable=policy.unknown_retryable, now=datetime.now(UTC)
    )
    return judge(failure, running.attempts, running.claim.max_attempts, policy, random), stack


def timed_out(running: Running, random: Callable[[], float]) -> tuple[Retried | Died, str]:
    """The verdict on an attempt that was stopped at its time limit (C-63)."""
    running.attempts += 1
    failure = Failure(FailureClass.HANDLER_TIMEOUT, retryable=True)
    verdict = judge(failure, running.attempts, running.claim.max_attempts, running.job_type.policy, random)
    return verdict, f"HANDLER_TIMEOUT in stage {running.claim.stage}: stopped at its time limit"


def _is_uncertain(error: BaseException) -> bool:
    try:
        return any(isinstance(member, EffectUncertain) for member in _members(error))
    except BaseException:  # a group of the handler's own may do anything; `classify` says what it is
        return False


def _members(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions[:100]:
            yield from _members(member)
    else:
        yield error
