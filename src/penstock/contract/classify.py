"""From any exception to exactly one failure (E-01).

`classify` never raises and never imports an SDK: it recognises errors by what
they carry and how they are called. What it does not recognise is a
`RUNTIME_BUG`, retried only where the type's policy says so.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.contract import absence, failures
from penstock.contract import failure_signals as signals
from penstock.contract.failure_tables import (
    BY_CODE,
    BY_HTTP_STATUS,
    BY_NAME,
    BY_SMTP_REPLY,
    BY_SQLSTATE,
    NEVER_REPEATED,
    VAGUE,
)
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

_DEEPEST: Final = 50  # links of one chain
_WIDEST: Final = 1000  # members of a group, nested ones included
_UNREACHABLE: Final = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ENOTCONN}
)
_MAIL: Final = frozenset({"aiosmtplib", "smtplib"})
_UNAUTHORIZED: Final = 401
_FIVE_HUNDRED: Final = 500  # an SMTP reply below it is transient, an HTTP status from it on is the upstream's fault


@dataclass(frozen=True, slots=True)
class Failure:
    """What an attempt failed of, and what follows from it."""

    error_class: FailureClass
    retryable: bool
    retry_after: timedelta | None = None
    upstream_status: int | None = None
    upstream_code: str | None = None  # only codes of our own table, so it holds no text from outside
    expected: bool = False
    refreshable: bool = False  # the credentials can be renewed, and the call made once more
    recognised: bool = True
    why: str = ""  # in words of ours; shown only where the type's policy allows messages (C-52)

    @property
    def opens_breaker(self) -> bool:
        """Whether the type should hold back its next jobs."""
        return failures.opens_breaker(self.error_class)

    @property
    def pages(self) -> bool:
        """Whether a person is called when a job ends with this failure (E-11)."""
        return failures.pages(self.error_class)

    @property
    def escalates(self) -> bool:
        """Whether an operator must look at a reject that nobody expected (E-10)."""
        return failures.escalates(self.error_class, expected=self.expected)


@dataclass(frozen=True, slots=True)
class _Finding:
    error_class: FailureClass
    status: int | None = None
    code: str | None = None
    vague: bool = False


def classify(
    error: BaseException, *, idempotent: bool = False, unknown_retryable: bool = False, now: datetime | None = None
) -> Failure:
    """Say what *error* means: one class, and retryable or not.

    *idempotent* tells whether the step may safely run twice (E-05),
    *unknown_retryable* is the policy for exceptions nobody recognises, and
    *now* is what an HTTP date in `Retry-After` is measured against. Of several
    errors in a group the worst counts, with the longest wait any of them asks for.

    An exception is code of somebody else's: one that raises when it is looked
    at, be it with `SystemExit`, is a bug that nobody recognises.
    """
    try:
        return _worst(error, idempotent, unknown_retryable, now)
    except BaseException:
        return _unrecognised(unknown_retryable)


def _worst(error: BaseException, idempotent: bool, unknown_retryable: bool, now: datetime | None) -> Failure:
    found = [_judge(member, idempotent, unknown_retryable, now) for member in _members(error)]
    worst = max(found, key=_severity)
    waits = [failure.retry_after for failure in found if failure.retry_after is not None]
    return replace(worst, retry_after=max(waits, default=None))


def may_refresh(failure: Failure, *, refreshed: bool) -> bool:
    """Whether to renew the credentials and call once more; never a second time (E-08)."""
    return failure.refreshable and not refreshed


def _severity(failure: Failure) -> tuple[bool, ...]:
    return (not failure.retryable, failure.pages, failure.opens_breaker, failure.escalates)


def _members(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group, flat; a single error is its own only member."""
    waiting, seen = [error], 0
    while waiting and seen < _WIDEST:
        member = waiting.pop()
        seen += 1
        if isinstance(member, BaseExceptionGroup):
            waiting.extend(reversed(member.exceptions))
        else:
            yield member
    if waiting:
        yield waiting.pop()


def _judge(error: BaseException, idempotent: bool, unknown_retryable: bool, now: datetime | None) -> Failure:
    source, finding = _find(error)
    if finding is None:
        return _unrecognised(unknown_retryable)
    retryable = failures.is_retryable(finding.error_class, idempotent=idempotent) and finding.code not in NEVER_REPEATED
    return Failure(
        finding.error_class,
        retryable,
        retry_after=signals.wait_asked_for(source, now),
        upstream_status=finding.status,
        upstream_code=finding.code,
        expected=signals.attribute(source, "expected") is True,
        refreshable=finding.error_class is FailureClass.AUTH_DENIED
        and finding.status in (None, _UNAUTHORIZED)
        and signals.attribute(source, "refreshable") is True,
        why=signals.own_words(source),
    )


def _unrecognised(unknown_retryable: bool) -> Failure:
    return Failure(FailureClass.RUNTIME_BUG, unknown_retryable, recognised=False)


def _find(error: BaseException) -> tuple[BaseException, _Finding | None]:
    """The link of the chain that says most: the first exact one, else the first vague one."""
    vague: tuple[BaseException, _Finding] | None = None
    for link in _chain(error):
        finding = _recognise(link)
        if finding is not None and not finding.vague:
            return link, finding
        if finding is not None and vague is None:
            vague = link, finding
    return vague or (error, None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """*error* and what it was raised from on purpose.

    The implicit context is left out: a bug in an `except` block is a bug,
    whatever was being handled.
    """
    seen: set[int] = set()
    link: object = error
    while isinstance(link, Exception) and id(link) not in seen and len(seen) < _DEEPEST:
        seen.add(id(link))
        yield link
        link = _inner(link)


def _inner(error: BaseException) -> object:
    """The cause; urllib keeps it in `reason`, requests in its first argument."""
    arguments = signals.attribute(error, "args")
    first = arguments[0] if isinstance(arguments, tuple) and arguments else None
    for inner in (error.__cause__, signals.attribute(error, "reason"), first):
        if isinstance(inner, BaseExceptionGroup):
            return inner.exceptions[0]
        if isinstance(inner, BaseException):
            return inner
    return None


def _recognise(error: BaseException) -> _Finding | None:
    own = signals.attribute(error, "error_class")
    if isinstance(own, FailureClass):
        return _Finding(own, signals.http_status(error), signals.own_code(error))
    package = _package(type(error))
    if package in _MAIL:
        return _by_smtp_reply(error) or _by_name(error)
    state = signals.sqlstate(error)
    if state is not None:
        found = BY_SQLSTATE.get(state) or BY_SQLSTATE.get(state[:2])
        return _Finding(found) if found else None
    return _by_http(error) or _by_name(error)


def _by_smtp_reply(error: BaseException) -> _Finding | None:
    reply = signals.smtp_reply(error)
    if reply is None:
        return None
    found = BY_SMTP_REPLY.get(reply)
    if found is None and reply < _FIVE_HUNDRED:
        found = FailureClass.UPSTREAM_5XX
    return _Finding(found) if found else None


def _by_http(error: BaseException) -> _Finding | None:
    status, code = signals.http_status(error), signals.known_code(error)
    if status in (400, 404) and signals.names_the_model(error):
        return _Finding(FailureClass.CONFIG_INVALID, status, code)
    if code is not None:
        return _Finding(BY_CODE[code], status, code)
    if status is None:
        return None
    found = BY_HTTP_STATUS.get(status)
    if found is None:
        found = FailureClass.UPSTREAM_5XX if status >= _FIVE_HUNDRED else FailureClass.RUNTIME_BUG
    return _Finding(found, status)


def _by_name(error: BaseException) -> _Finding | None:
    own_name = type(error).__name__
    for base in type(error).__mro__:
        found = BY_NAME.get(_package(base), {}).get(base.__name__)
        if found is not None:
            return _Finding(found, vague=bool({own_name, base.__name__} & VAGUE))
    if isinstance(error, OSError) and (error.errno in _UNREACHABLE or absence.failed_to_connect(error)):
        return _Finding(FailureClass.NETWORK_RESET)
    if absence.is_lost_connection(error) or _follows_from_a_loss(error):
        return _Finding(FailureClass.NETWORK_RESET)
    return None


def _follows_from_a_loss(error: BaseException) -> bool:
    """Whether a driver only says what is left to say after its connection was lost.

    A transaction whose connection is cut in the middle of a statement fails a
    second time when its block rolls back, and that is the error a handler sees.
    """
    if not absence.may_follow_from_one(error):
        return False
    before = error.__context__
    for _ in range(_DEEPEST):
        if before is None:
            return False
        if _says_away(before):
            return True
        before = before.__context__
    return False


def _says_away(error: BaseException) -> bool:
    state = signals.sqlstate(error)
    if state is not None:
        return absence.of_state(state) is not None
    return isinstance(error, OSError | EOFError) or absence.is_lost_connection(error)


def _package(cls: type) -> str:
    return absence.package(str(cls.__module__))
