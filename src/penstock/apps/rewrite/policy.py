"""What the engine is told about `complaint_rewrite`: the policy of the contract, with the numbers of a profile."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.policies import Audit, Dispatch
from penstock.engine.batches.lane import LaneSchedule
from penstock.store.roles import ORCHESTRATOR

if TYPE_CHECKING:
    from penstock.settings import Settings

STAGE: Final = "rewrite"
SUBMITTER: Final = "rewrite_batch_submitter"
COLLECTOR: Final = "rewrite_batch_collector"
LOG_IDS: Final = ("rewrite_request_id", "recipient_user_id", "home_id")  # all that a payload has, and all of it opaque
SCHEDULE: Final = LaneSchedule(submitter=SUBMITTER, collector=COLLECTOR)


def policy_of(settings: Settings) -> dict[str, Any]:
    """The fields of `Policy` for the active profile (Q-51 to Q-57, Q-91 to Q-95).

    A request is tried within its budget and never replayed: a user who wants
    another try writes another message (A-74). An error that nobody recognises
    is final, and no exception's words are kept (C-52).
    """
    profile = settings.active_profile()
    return {
        "stages": (STAGE,),
        "attempts": settings.rewrite_attempts,
        "backoff": profile.backoff,
        "lease": timedelta(seconds=profile.claim_timeout_seconds),
        "drain_cap": profile.max_jobs_per_run,
        "startup_cap": profile.max_jobs_per_run,
        "max_runtime": timedelta(seconds=profile.max_runtime_seconds),
        "dispatch": Dispatch.SCHEDULED,
        "audit": Audit.FULL,
        "stale_counts_attempt": True,
        "unknown_retryable": False,
        "replayable": False,
        "error_messages": False,
        "enqueue_role": ORCHESTRATOR,
        "keep_finished": timedelta(days=settings.keep_jobs_days),
        "keep_keys": None,
    }
