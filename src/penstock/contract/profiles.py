"""The configuration sets base, dev, stage and prod for scheduled types (Q-51 to Q-57, Q-91 to Q-95).

A profile is configuration and no contract: every value can be overridden
(Q-94) without a new contract version (Q-89). What cannot be overridden is
sense; a profile that would run without bound, lose its leases or never drain
is refused before anything starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.backoff import Schedule
from penstock.contract.errors import SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

MINUTES_PER_HOUR: Final = 60
COLLECTOR_HEADROOM: Final = 1.5  # times the submitter's pace, so that batches do not pile up (C-25)
DEFAULT_HEADROOM: Final = 2.0
PROD_CADENCE: Final = range(60, 121)
_LARGEST: Final[Mapping[str, int]] = {
    "max_jobs_per_run": 100_000,
    "max_runtime_seconds": 86_400,
    "claim_timeout_seconds": 7 * 86_400,
    "submitter_minutes": 7 * 1440,
    "collector_minutes": 7 * 1440,
    "worker_minutes": 7 * 1440,
    "collector_max_items": 1_000_000,
    "overflow_backoff_seconds": 86_400,
    "arrivals_per_hour": 100_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One set of values; the defaults are those of the base."""

    name: str = "base"
    max_jobs_per_run: int = 25
    max_runtime_seconds: int = 240  # a run takes no new work after this
    claim_timeout_seconds: int = 600  # the lease
    order: str = "created_at_asc"
    eligible_statuses: tuple[str, ...] = ("queued",)
    respect_not_before_at: bool = True
    retry_backoff_seconds: tuple[float, ...] = (900, 7200)
    submitter_minutes: int = 15
    collector_minutes: int = 30
    worker_minutes: int = 60  # cadence of the async-mode worker
    collector_max_items: int | None = None  # none: twice the submitter's pace
    overflow_backoff_seconds: int = 60  # a claimed job that did not fit goes back this long (C-26)
    arrivals_per_hour: int | None = None  # none: unknown, not checked

    def __post_init__(self) -> None:
        object.__setattr__(self, "retry_backoff_seconds", tuple(self.retry_backoff_seconds))
        _check_bounds(self)
        _check_fixed(self)
        _check_lease(self)
        _check_collector(self)
        _check_pace(self)

    @property
    def backoff(self) -> Schedule:
        """The exact schedule of retries (Q-68)."""
        return Schedule(self.retry_backoff_seconds)

    @property
    def collector_cap(self) -> int:
        """How many items one collector run may settle."""
        if self.collector_max_items is not None:
            return self.collector_max_items
        return math.ceil(DEFAULT_HEADROOM * self.max_jobs_per_run * self.collector_minutes / self.submitter_minutes)


def profile(name: str, **overrides: Any) -> Profile:
    """The profile *name* with the values in *overrides* put in its place; None keeps the profile's own."""
    known = PROFILES.get(name)
    if known is None:
        raise SettingsInvalid(f"no profile {name!r}; choose one of {', '.join(PROFILES)}")
    names = {field.name for field in fields(Profile)} - {"name"}
    unknown = sorted(set(overrides) - names)
    if unknown:
        raise SettingsInvalid(f"a profile has no value {unknown[0]!r}; it has {', '.join(sorted(names))}")
    return replace(known, **{key: value for key, value in overrides.items() if value is not None})


def _check_bounds(profile: Profile) -> None:
    """No limit is missing, zero or negative: a run is always bounded (Q-85)."""
    for name, largest in _LARGEST.items():
        value = getattr(profile, name)
        if value is None and name in ("collector_max_items", "arrivals_per_hour"):
            continue
        if type(value) is not int or not 1 <= value <= largest:
            raise SettingsInvalid(f"{name} must be a whole number from 1 to {largest}, not {value!r}")
    Schedule(profile.retry_backoff_seconds)


def _check_fixed(profile: Profile) -> None:
    """Order and eligibility are claiming rules: other values would need a new contract version (Q-90)."""
    if profile.order != "created_at_asc":
        raise SettingsInvalid(f"order must be created_at_asc, not {profile.order!r}")
    if tuple(profile.eligible_statuses) != ("queued",):
        raise SettingsInvalid("eligible_statuses must be [queued]: only queued jobs are ever claimed")
    if profile.respect_not_before_at is not True:
        raise SettingsInvalid("respect_not_before_at must be true: a job is never claimed before it is due")


def _check_lease(profile: Profile) -> None:
    """A lease outlasts its run, else a run's own jobs are taken from it (C-20)."""
    if profile.claim_timeout_seconds <= profile.max_runtime_seconds:
        raise SettingsInvalid(
            f"claim_timeout_seconds {profile.claim_timeout_seconds} must be above max_runtime_seconds "
            f"{profile.max_runtime_seconds}; raise the lease or shorten the run"
        )


def _check_collector(profile: Profile) -> None:
    """A collector slower than the submitter would let batch_submitted grow for ever (C-25)."""
    submitted = profile.max_jobs_per_run / profile.submitter_minutes
    collected = profile.collector_cap / profile.collector_minutes
    if collected < COLLECTOR_HEADROOM * submitted:
        needed = math.ceil(COLLECTOR_HEADROOM * submitted * profile.collector_minutes)
        raise SettingsInvalid(
            f"the collector settles {profile.collector_cap} items every {profile.collector_minutes} min, below "
            f"{COLLECTOR_HEADROOM} times the submitter's pace; raise collector_max_items to {needed}, or its cadence"
        )


def _check_pace(profile: Profile) -> None:
    """Runs drain what arrives, and in prod a retry never comes before the next run (Q-93, Q-95)."""
    if profile.name == "prod":
        if profile.worker_minutes not in PROD_CADENCE:
            raise SettingsInvalid(f"worker_minutes must lie in 60..120 in prod, not {profile.worker_minutes}")
        cadence = profile.worker_minutes * MINUTES_PER_HOUR
        if min(profile.retry_backoff_seconds) < cadence:
            raise SettingsInvalid(
                f"every retry_backoff_seconds must be at least the cadence of {cadence} s in prod; "
                "raise the delays or lower worker_minutes"
            )
    drained = profile.max_jobs_per_run * MINUTES_PER_HOUR / profile.worker_minutes
    if profile.arrivals_per_hour is not None and drained < profile.arrivals_per_hour:
        raise SettingsInvalid(
            f"{profile.max_jobs_per_run} jobs every {profile.worker_minutes} min drain {drained:g} an hour, but "
            f"{profile.arrivals_per_hour} arrive; raise max_jobs_per_run or lower worker_minutes"
        )


BASE: Final = Profile()
DEV: Final = Profile(
    name="dev",
    worker_minutes=120,
    max_jobs_per_run=5,
    max_runtime_seconds=120,
    retry_backoff_seconds=(120, 600),
    claim_timeout_seconds=300,
)
STAGE: Final = Profile(
    name="stage",
    worker_minutes=30,
    max_jobs_per_run=30,
    max_runtime_seconds=180,
    retry_backoff_seconds=(300, 1800),
    claim_timeout_seconds=900,
)
PROD: Final = Profile(
    name="prod",
    worker_minutes=60,
    max_jobs_per_run=200,
    max_runtime_seconds=240,
    retry_backoff_seconds=(3600, 21600),
    claim_timeout_seconds=3600,
)
PROFILES: Final[Mapping[str, Profile]] = {profile.name: profile for profile in (BASE, DEV, STAGE, PROD)}
