"""What differs between job types, in one frozen value per type.

A policy is declared beside the handler, resolved once at enqueue into typed
columns of the job, and stored in `penstock.types` so that SQL callers and
operators see the same numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from penstock.contract import value_kinds
from penstock.contract.backoff import Backoff, FullJitter, Schedule
from penstock.contract.errors import SettingsInvalid
from penstock.contract.prices import amount, to_micros
from penstock.contract.value_kinds import refuse_unless_kind

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_CHANNEL: Final = "penstock_jobs"
CONTROL_CHANNEL: Final = "penstock_control"  # pauses, cancels: what a worker should hear at once
NAME: Final = re.compile(r"[a-z][a-z0-9_.-]{0,49}")  # for fullmatch: a `$` would let a line feed pass
LONGEST_LEASE: Final = timedelta(days=1)
DEFAULT_TIMEOUT: Final = timedelta(hours=1)
Timeout = timedelta | Mapping[str, timedelta | None] | None
LARGEST_SMALLINT: Final = 32_767
MOST: Final = 1000  # attempts or reclaims; more is taken for a slip of the pen
_COUNTS: Final = ("attempts", "priority", "drain_cap", "startup_cap", "max_reclaims", "max_payload_bytes")
_FLAGS: Final = (
    "idempotent",
    "unknown_retryable",
    "stale_counts_attempt",
    "replayable",
    "steps_required",
    "error_messages",
)


class Dispatch(StrEnum):
    """What starts work of a type."""

    NOTIFY = "notify"  # pokes, polls and the startup scan, in a worker
    SCHEDULED = "scheduled"  # bounded runs of a schedule or an admin, nothing else (C-23)


class Audit(StrEnum):
    """How much of a job's history is kept."""

    SUMMARY = "summary"  # times, attempts and the last error, on the job's row
    FULL = "full"  # also one append-only row per move


@dataclass(frozen=True, slots=True)
class Rate:
    """At most *count* starts in any stretch of *period*: the window slides, and nothing is let through twice."""

    count: int
    period: timedelta

    def __post_init__(self) -> None:
        refuse_unless_kind("the count of a rate", self.count, int)
        refuse_unless_kind("the period of a rate", self.period, timedelta)
        if self.count < 1 or self.period <= timedelta(0):
            raise SettingsInvalid(
                f"a rate has a count of at least 1 and a period above 0, not {self.count} in {self.period}"
            )


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a type may run at once and start per period, across all workers (C-64).

    The `key_` fields hold for each `limit_key` on its own.
    """

    running: int | None = None
    rate: Rate | None = None
    key_running: int | None = None
    key_rate: Rate | None = None

    def __post_init__(self) -> None:
        for name in ("running", "key_running"):
            value = getattr(self, name)
            refuse_unless_kind(f"limit {name}", value, int, none=True)
            if value is not None and value < 1:
                raise SettingsInvalid(f"limit {name} is at least 1, not {value}; pause the type to stop it")
        for name in ("rate", "key_rate"):
            refuse_unless_kind(f"limit {name}", getattr(self, name), Rate, none=True, hint=value_kinds.as_rate)


@dataclass(frozen=True, slots=True)
class Breaker:
    """Stop claiming a type whose credentials, quota or configuration are broken.

    Opens after *after* such failures in a row, lets one probe through every
    *cooldown*, and closes when a job succeeds.
    """

    after: int = 3
    cooldown: timedelta = timedelta(seconds=60)

    def __post_init__(self) -> None:
        refuse_unless_kind("after of a breaker", self.after, int)
        refuse_unless_kind("cooldown of a breaker", self.cooldown, timedelta)
        if self.after < 1 or self.cooldown <= timedelta(0):
            raise SettingsInvalid(
                f"a breaker opens after 1 failure or more and cools down for a time, not {self.after}, {self.cooldown}"
            )


@dataclass(frozen=True, slots=True)
class Policy:
    """Every setting of one job type. The defaults are those of a plain type."""

    job_type: str
    stages: tuple[str, ...] = ("run",)  # in their order; each has a handler and a budget of its own
    attempts: int = 5  # per stage, the first one included
    backoff: Backoff = field(default_factory=FullJitter)  # the delay after a failed attempt: FullJitter or Schedule
    lease: timedelta = timedelta(minutes=5)  # renewed while the handler runs (C-20)
    timeout: Timeout = DEFAULT_TIMEOUT  # per stage and attempt (C-63); a mapping: per stage; None: no limit
    priority: int = 0  # lower runs first
    audit: Audit = Audit.SUMMARY  # summary: on the job's row alone; full: also one row per move
    dispatch: Dispatch = Dispatch.NOTIFY  # notify: workers start it; scheduled: bounded runs alone (C-23)
    channel: str = DEFAULT_CHANNEL  # of NOTIFY, on which workers are poked
    drain_cap: int = 1000  # jobs per drain (C-25)
    startup_cap: int = 1000  # jobs in the first drain of a worker that has just started
    max_runtime: timedelta = timedelta(minutes=4)  # a run takes no new work after this
    idempotent: bool = True  # conflicts may be retried (E-05)
    unknown_retryable: bool = True  # an exception that no rule recognises is retried
    stale_counts_attempt: bool = True  # an expired lease uses an attempt (C-13)
    max_reclaims: int = 5  # expired leases a job survives where they use no attempt
    replayable: bool = True  # False: a dead letter cannot be replayed
    steps_required: bool = False  # replay only after triage, remediation and validation (E-33)
    error_messages: bool = True  # keep exception messages, redacted; False: codes and frames only (C-52)
    max_payload_bytes: int = 256 * 1024  # of the payload as JSON; a larger one is refused at enqueue
    enqueue_role: str | None = None  # only members of this database role may enqueue
    keep_finished: timedelta | None = timedelta(days=7)  # None: for ever
    keep_keys: timedelta | None = timedelta(days=30)  # of pruned jobs; None: for ever (C-65)
    limits: Limits = Limits()  # running at once and starts per period, over all workers (C-64)
    breaker: Breaker = Breaker()  # holds the type after failures in a row of key, quota or configuration
    daily_spend_cap: Decimal | str | None = None  # in the currency of the price table; pauses the type (C-64)

    def __post_init__(self) -> None:
        check_name("job type", self.job_type)
        self._check_kinds()
        if self.daily_spend_cap is not None:
            cap = amount(f"daily_spend_cap of type {self.job_type!r}", self.daily_spend_cap)
            self._refuse_unless(cap > 0, "daily_spend_cap", "above 0; pause the type to stop it")
            object.__setattr__(self, "daily_spend_cap", cap)
        for name, kind in (("audit", Audit), ("dispatch", Dispatch)):
            self._refuse_unless(getattr(self, name) in list(kind), name, f"one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(getattr(self, name)))  # a plain word will do
        if not self.stages or len(set(self.stages)) != len(self.stages):
            raise SettingsInvalid(f"type {self.job_type!r} needs stages with different names, not {self.stages!r}")
        for stage in self.stages:
            check_name("stage", stage)
        for name in ("attempts", "drain_cap", "startup_cap", "max_payload_bytes"):
            self._refuse_unless(getattr(self, name) >= 1, name, "at least 1")
        self._refuse_unless(self.attempts <= MOST, "attempts", f"at most {MOST}")
        self._refuse_unless(0 <= self.max_reclaims <= MOST, "max_reclaims", f"between 0 and {MOST}")
        self._refuse_unless(
            abs(self.priority) <= LARGEST_SMALLINT, "priority", f"between -{LARGEST_SMALLINT} and {LARGEST_SMALLINT}"
        )
        self._refuse_unless(timedelta(0) < self.lease <= LONGEST_LEASE, "lease", "above 0 and at most one day")
        if isinstance(self.timeout, Mapping):
            unknown = self.timeout.keys() - set(self.stages)
            self._refuse_unless(not unknown, "timeout", f"given for the stages {', '.join(self.stages)}")
        limits = [self.timeout_of(stage) for stage in self.stages]
        self._refuse_unless(all(t is None or t > timedelta(0) for t in limits), "timeout", "above 0, or None")
        self._refuse_unless(self.max_runtime > timedelta(0), "max_runtime", "above 0")
        if self.dispatch is Dispatch.SCHEDULED:
            self._refuse_unless(
                self.lease > self.max_runtime,
                "lease",
                f"longer than max_runtime ({self.max_runtime}) for a scheduled type",
            )

    @property
    def staged(self) -> bool:
        """Whether the type has more than one stage."""
        return len(self.stages) > 1

    @property
    def cap_micros(self) -> int | None:
        """The daily spend cap in millionths; None: no cap."""
        return None if self.daily_spend_cap is None else to_micros(Decimal(self.daily_spend_cap))

    def next_stage(self, stage: str) -> str | None:
        """The stage behind *stage*, or None at the end."""
        place = self.stages.index(stage) + 1
        return self.stages[place] if place < len(self.stages) else None

    def timeout_of(self, stage: str) -> timedelta | None:
        """The time limit of *stage*; a stage that a mapping leaves out has the default of one hour."""
        if isinstance(self.timeout, Mapping):
            return self.timeout.get(stage, DEFAULT_TIMEOUT)
        return self.timeout

    def to_json(self) -> dict[str, Any]:
        """The whole policy as plain JSON, for `penstock.types.policy`."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def _check_kinds(self) -> None:
        """A value of the wrong kind would be noticed when a handler fails, and then its job would hang."""
        for name in _COUNTS:
            self._refuse_unless_kind(name, int)
        for name in _FLAGS:
            self._refuse_unless_kind(name, bool)
        for name in ("lease", "max_runtime"):
            self._refuse_unless_kind(name, timedelta)
        for name in ("keep_finished", "keep_keys"):
            self._refuse_unless_kind(name, timedelta, none=True)
        self._refuse_unless_kind("backoff", Schedule, FullJitter, hint=value_kinds.as_backoff)
        self._refuse_unless_kind("limits", Limits, hint=value_kinds.as_limits)
        self._refuse_unless_kind("breaker", Breaker, hint=value_kinds.as_breaker)
        self._refuse_unless_kind("channel", str)
        self._refuse_unless_kind("enqueue_role", str, none=True)
        self._refuse_unless_kind("stages", tuple, list, hint=value_kinds.as_stages)
        object.__setattr__(self, "stages", tuple(self.stages))
        if not isinstance(self.timeout, Mapping):
            self._refuse_unless_kind("timeout", timedelta, none=True)
            return
        for stage, limit in self.timeout.items():
            refuse_unless_kind(f"the timeout of stage {stage!r} of type {self.job_type!r}", limit, timedelta, none=True)

    def _refuse_unless_kind(
        self, name: str, *kinds: type, none: bool = False, hint: Callable[[Any], str] | None = None
    ) -> None:
        value = getattr(self, name)
        refuse_unless_kind(f"{name} of type {self.job_type!r}", value, *kinds, none=none, hint=hint)

    def _refuse_unless(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise SettingsInvalid(f"{name} of type {self.job_type!r} must be {rule}, not {getattr(self, name)!r}")


def check_name(what: str, name: str) -> None:
    """Refuse what is no name of a type, a stage, a function or a schedule."""
    refuse_unless_kind(f"the name of a {what}", name, str)
    if not NAME.fullmatch(name):
        raise SettingsInvalid(
            f"{what} {name!r}: use 1 to 50 lower-case letters, digits, '_', '.' or '-', beginning with a letter"
        )


def _plain(value: object) -> object:
    match value:
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return str(value)
        case Mapping():
            return {str(name): _plain(member) for name, member in value.items()}
        case Rate() | Limits() | Breaker():
            return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
        case _ if hasattr(value, "to_json"):
            stored: Mapping[str, object] = value.to_json()
            return dict(stored)
        case _:
            return list(value) if isinstance(value, tuple) else value
