"""Calls whose credentials expire: renew them and try once more, never twice (E-08)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.contract.classify import classify
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
_UNAUTHORIZED: Final = 401


async def retry_once_refreshed(call: Callable[[], Awaitable[T]], refresh: Callable[[], Awaitable[Any]]) -> T:
    """Make *call*; when it is refused for its credentials, *refresh* them and call once more.

    Refused means 401, or an error that says itself that it is `refreshable`. A
    403 is no matter of an old token. What the second call raises is raised,
    and so is what *refresh* raises: an attempt that fails so goes to dead
    letter at once, because only a person can mend the credentials (E-07).
    """
    try:
        return await call()
    except Exception as error:
        if not _may_be_stale(error):
            raise
    await refresh()
    return await call()


def _may_be_stale(error: Exception) -> bool:
    failure = classify(error)
    return failure.refreshable or (
        failure.error_class is FailureClass.AUTH_DENIED and failure.upstream_status == _UNAUTHORIZED
    )
