"""From whatever an SDK raises to a class of the closed list, and to what may have happened.

Nothing of a provider's message goes on: it may quote a user's text. The new
error is raised outside the `except`, so not even its context holds the old one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from penstock.contract.classify import Failure, classify
from penstock.contract.errors import EffectUncertain, Failed, NotPerformed, Outcome
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

P = ParamSpec("P")
T = TypeVar("T")
_OPEN_4XX: Final = frozenset({408, 499})  # an answer, but not one that says nothing was done
_REFUSALS: Final = range(400, 500)
_NEVER_SENT: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "InvalidURL", "gaierror"}
)
_LINKS: Final = 20


class Unreadable(Exception):
    """An answer with status 200 that is no answer: HTML, broken JSON, or another shape."""

    error_class = FailureClass.UPSTREAM_5XX


class _Said(Exception):
    """What one line of a batch says went wrong, in the form that `classify` reads."""

    def __init__(self, status: int | None, body: object) -> None:
        super().__init__()
        self.status_code = status
        self.body = body


def asks(method: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """For a method that changes nothing: any failure of it becomes a `Failed`."""

    @wraps(method)
    async def asking(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except (Outcome, EffectUncertain):
            raise
        except Exception as error:
            failed = failed_of(error)
        raise failed

    return asking


def acts(method: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """For a create or an upload: `NotPerformed` where the provider certainly did nothing.

    Anything else leaves the outcome open, and the caller has to look it up. A
    `Failed` of our own in there is raised before anything is sent.
    """

    @wraps(method)
    async def acting(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except Failed as own:
            failed, certain = own, True
        except Exception as error:
            failed, certain = failed_of(error), _was_refused(error)
        if certain:
            raise NotPerformed("the provider did not take it") from failed
        raise failed

    return acting


def failed_of(error: BaseException) -> Failed:
    """*error* as a failure of the closed list, without its words."""
    failure = classify(error, idempotent=True, now=datetime.now(UTC))
    return failed_with(failure)


def failed_with(failure: Failure) -> Failed:
    """What to raise for *failure*; it keeps what is known of the upstream."""
    return Failed(
        failure.error_class,
        retry_after=failure.retry_after,
        upstream_status=failure.upstream_status,
        upstream_code=failure.upstream_code,
    )


def failure_of(status: int | None, body: Mapping[str, Any] | None) -> Failure:
    """What a line with this status and error body failed of.

    Status 0 is a request that never got an answer: the upstream's fault.
    """
    if status == 0:
        return failure(FailureClass.UPSTREAM_5XX)
    return classify(_Said(status, body), idempotent=True)


def unanswered(error: Mapping[str, Any]) -> Failure:
    """Why a line has no response at all: a code that we know, else the provider failed to run it."""
    said = classify(_Said(None, error), idempotent=True)
    return said if said.recognised else failure(FailureClass.UPSTREAM_5XX)


def failure(error_class: FailureClass) -> Failure:
    """The failure of a class that we have found ourselves."""
    return classify(Failed(error_class), idempotent=True)


def _was_refused(error: BaseException) -> bool:
    """Whether nothing was done: no connection came about, or the answer was a definite no."""
    link: BaseException | None = error
    for _ in range(_LINKS):
        if link is None:
            return False
        if type(link).__name__ in _NEVER_SENT or isinstance(link, ConnectionRefusedError):
            return True
        status = getattr(link, "status_code", None) or getattr(link, "code", None)
        if isinstance(status, int):
            return status in _REFUSALS and status not in _OPEN_4XX
        link = link.__cause__
    return False
