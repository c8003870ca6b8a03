"""From what went wrong on the way to a class of the closed list, and to what may have happened.

Nothing of a provider's message goes on, and no error keeps the one below it:
both may quote an address or a key.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from penstock.contract.classify import classify
from penstock.contract.errors import EffectUncertain, Failed, NotPerformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.contract.failures import FailureClass

_REFUSALS: Final = range(300, 500)
_OPEN: Final = frozenset({408, 409, 499})  # answers that leave open whether this message has been taken


class Said(Exception):
    """A status and a code, in the form that `classify` reads."""

    def __init__(self, status: int, code: str | None, headers: Mapping[str, str]) -> None:
        super().__init__()
        self.status_code = status
        self.body = {"code": code}
        self.headers = headers


@dataclass(frozen=True, slots=True)
class Broken:
    """No answer came."""

    failed: Failed
    sent: bool  # whether the other side may have read the request

    @property
    def error(self) -> Failed | NotPerformed:
        """What a send raises for it."""
        return self.failed if self.sent else not_taken(self.failed)


def failed_of(error: BaseException, error_class: FailureClass | None = None, why: str = "") -> Failed:
    """*error* as a failure of the closed list, without its words; *error_class* says it better than the tables."""
    found = classify(error, idempotent=True, now=datetime.now(UTC))
    return Failed(
        error_class or found.error_class,
        why,
        retry_after=found.retry_after,
        upstream_status=found.upstream_status,
        upstream_code=found.upstream_code,
    )


def not_taken(failed: Failed) -> NotPerformed:
    """*failed*, and this message has certainly not been taken by this call."""
    error = NotPerformed("nobody has taken the message")
    error.__cause__ = failed
    return error


def refused(status: int) -> bool:
    """Whether *status* says for certain that nothing was done."""
    return status in _REFUSALS and status not in _OPEN


def unknowable(channel: str) -> EffectUncertain:
    """For a lookup that the channel does not have: nobody can tell, which is not the same as no."""
    return EffectUncertain(f"the channel {channel} cannot tell whether this message was taken")
