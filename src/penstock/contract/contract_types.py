"""The policies of the three contract types, where every decision that differs between them comes together.

The applications bring the handlers; the numbers are here, so that the engine
is proven with the very policies it ships with.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.backoff import FullJitter, Schedule
from penstock.contract.policies import Audit, Dispatch, Policy

if TYPE_CHECKING:
    from penstock.contract.profiles import Profile

VAULT_CHANNEL: Final = "litevault_jobs"  # C-28
LEASE: Final = timedelta(minutes=5)
DRAIN: Final = 10
STARTUP: Final = 100
# Kept for a season, the keys for ever: a forgotten key would be a second effect (C-65, C-67).
_KEPT: Final[dict[str, Any]] = {
    "audit": Audit.FULL,
    "keep_finished": timedelta(days=90),
    "keep_keys": None,
    "error_messages": False,
}


def complaint_rewrite(profile: Profile) -> Policy:
    """Bounded runs only, at the pace of *profile*; two attempts, exact delays, no replay."""
    return Policy(
        "complaint_rewrite",
        stages=("rewrite",),
        attempts=2,
        backoff=profile.backoff,
        lease=timedelta(seconds=profile.claim_timeout_seconds),
        dispatch=Dispatch.SCHEDULED,
        drain_cap=profile.max_jobs_per_run,
        startup_cap=profile.max_jobs_per_run,
        max_runtime=timedelta(seconds=profile.max_runtime_seconds),
        unknown_retryable=False,
        stale_counts_attempt=True,
        replayable=False,
        **_KEPT,
    )


def review_processing() -> Policy:
    """Three stages with five attempts each, jittered delays, replay only along the operator's steps."""
    return Policy(
        "review_processing",
        stages=("fetch", "llm", "notify"),
        attempts=5,
        backoff=FullJitter(initial=1, multiplier=2.0, maximum=60),
        lease=LEASE,
        drain_cap=DRAIN,
        startup_cap=STARTUP,
        unknown_retryable=False,
        stale_counts_attempt=True,
        replayable=True,
        steps_required=True,
        **_KEPT,
    )


def enrichment() -> Policy:
    """At once, then after 30 s and 5 min; an expired lease uses no attempt, but only five are survived."""
    return Policy(
        "enrichment",
        stages=("enrich",),
        attempts=4,
        backoff=Schedule((0, 30, 300), honours_retry_after=True),
        lease=LEASE,
        channel=VAULT_CHANNEL,
        drain_cap=DRAIN,
        startup_cap=STARTUP,
        unknown_retryable=True,
        stale_counts_attempt=False,
        max_reclaims=5,
        replayable=True,
        **_KEPT,
    )
