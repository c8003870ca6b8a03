"""The closed list of failure classes and what follows from each (C-50, E-27).

Every failure, known or not, ends in exactly one of these classes. What the
engine does about it is read from one table; nobody else decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class FailureClass(StrEnum):
    """Why an attempt failed: a stable word that outlives the exception behind it."""

    NETWORK_TIMEOUT = "NETWORK_TIMEOUT"  # the outcome of a send is unknown
    NETWORK_RESET = "NETWORK_RESET"
    DNS_FAILURE = "DNS_FAILURE"  # never sent
    UPSTREAM_5XX = "UPSTREAM_5XX"  # also a broken body behind a 200
    RATE_LIMITED = "RATE_LIMITED"  # a window that passes by itself
    CONFLICT = "CONFLICT"  # serialization, deadlock, version, 409
    HANDLER_TIMEOUT = "HANDLER_TIMEOUT"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    BATCH_EXPIRED = "BATCH_EXPIRED"
    QUOTA_EXHAUSTED = "QUOTA_EXHAUSTED"  # money, not a window
    AUTH_DENIED = "AUTH_DENIED"
    CONFIG_INVALID = "CONFIG_INVALID"  # unknown model, prompt version, adapter, endpoint
    NOT_FOUND = "NOT_FOUND"
    SCHEMA_INVALID = "SCHEMA_INVALID"
    LEXICON_BLOCKED = "LEXICON_BLOCKED"
    LOCALE_MISMATCH = "LOCALE_MISMATCH"
    PAYLOAD_REJECTED = "PAYLOAD_REJECTED"
    POLICY_REJECTED = "POLICY_REJECTED"  # escalated unless the caller expected it
    BATCH_ITEM_MISSING = "BATCH_ITEM_MISSING"
    BATCH_ITEM_AMBIGUOUS = "BATCH_ITEM_AMBIGUOUS"
    RECIPIENT_REJECTED = "RECIPIENT_REJECTED"
    RUNTIME_BUG = "RUNTIME_BUG"  # and every exception nobody recognised


class Retry(Enum):
    """Whether the engine may try again by itself."""

    YES = auto()
    IF_IDEMPOTENT = auto()
    NO = auto()


@dataclass(frozen=True, slots=True)
class Rule:
    """What follows from one class."""

    retry: Retry
    opens_breaker: bool = False  # the next job would fail likewise: hold the type
    pages: bool = False
    escalates: bool = False  # to an operator, unless the failure was expected


_RETRY: Final = Rule(Retry.YES)
_STOP: Final = Rule(Retry.NO)

RULES: Final[Mapping[FailureClass, Rule]] = {
    FailureClass.NETWORK_TIMEOUT: _RETRY,
    FailureClass.NETWORK_RESET: _RETRY,
    FailureClass.DNS_FAILURE: _RETRY,
    FailureClass.UPSTREAM_5XX: _RETRY,
    FailureClass.RATE_LIMITED: _RETRY,
    FailureClass.CONFLICT: Rule(Retry.IF_IDEMPOTENT),
    FailureClass.HANDLER_TIMEOUT: _RETRY,
    FailureClass.LEASE_EXPIRED: _RETRY,
    FailureClass.BATCH_EXPIRED: _RETRY,
    FailureClass.QUOTA_EXHAUSTED: Rule(Retry.NO, opens_breaker=True),
    FailureClass.AUTH_DENIED: Rule(Retry.NO, opens_breaker=True),
    FailureClass.CONFIG_INVALID: Rule(Retry.NO, opens_breaker=True, pages=True),
    FailureClass.NOT_FOUND: _STOP,
    FailureClass.SCHEMA_INVALID: _STOP,
    FailureClass.LEXICON_BLOCKED: _STOP,
    FailureClass.LOCALE_MISMATCH: _STOP,
    FailureClass.PAYLOAD_REJECTED: _STOP,
    FailureClass.POLICY_REJECTED: Rule(Retry.NO, escalates=True),
    FailureClass.BATCH_ITEM_MISSING: _STOP,
    FailureClass.BATCH_ITEM_AMBIGUOUS: _STOP,
    FailureClass.RECIPIENT_REJECTED: _STOP,
    FailureClass.RUNTIME_BUG: Rule(Retry.NO, pages=True),
}


def is_retryable(error_class: FailureClass, *, idempotent: bool) -> bool:
    """Whether this class may be retried; a conflict only where the step may safely run twice (E-05)."""
    retry = RULES[error_class].retry
    return retry is Retry.YES or (retry is Retry.IF_IDEMPOTENT and idempotent)


def opens_breaker(error_class: FailureClass) -> bool:
    """Whether the type should stop claiming until somebody or a probe says otherwise."""
    return RULES[error_class].opens_breaker


def pages(error_class: FailureClass) -> bool:
    """Whether a person is called at once (E-11)."""
    return RULES[error_class].pages


def escalates(error_class: FailureClass, *, expected: bool) -> bool:
    """Whether an operator must look at it: a reject that nobody expected (E-10)."""
    return RULES[error_class].escalates and not expected
