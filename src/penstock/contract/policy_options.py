"""The keywords of a declaration, for type checkers: `atempts=3` and `lease=300` are told before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal, TypedDict, cast

from penstock.contract.backoff import Backoff
from penstock.contract.errors import SettingsInvalid
from penstock.contract.policies import Audit, Breaker, Dispatch, Limits, Policy


class PolicyOptions(TypedDict, total=False):
    """The fields of `Policy` beside the type's name, where plain words and lists will do too."""

    stages: tuple[str, ...] | list[str]  # no Sequence: a text is one of letters
    attempts: int
    backoff: Backoff
    lease: timedelta
    timeout: timedelta | Mapping[str, timedelta | None] | None
    priority: int
    audit: Audit | Literal["summary", "full"]
    dispatch: Dispatch | Literal["notify", "scheduled"]
    channel: str
    drain_cap: int
    startup_cap: int
    max_runtime: timedelta
    idempotent: bool
    unknown_retryable: bool
    stale_counts_attempt: bool
    max_reclaims: int
    replayable: bool
    steps_required: bool
    error_messages: bool
    max_payload_bytes: int
    enqueue_role: str | None
    keep_finished: timedelta | None
    keep_keys: timedelta | None
    limits: Limits
    breaker: Breaker
    daily_spend_cap: Decimal | str | None


def policy_of(job_type: str, options: PolicyOptions) -> Policy:
    """The policy that *options* describe; it makes tuples of lists and members of words."""
    for name in options.keys() - PolicyOptions.__optional_keys__:
        from difflib import get_close_matches  # only for whoever mistyped

        known = sorted(PolicyOptions.__optional_keys__)
        near = get_close_matches(name, known, n=1) or known
        raise SettingsInvalid(f"type {job_type!r}: a policy has no {name!r}; did you mean {', '.join(near)}?")
    return Policy(job_type, **cast("dict[str, Any]", options))
