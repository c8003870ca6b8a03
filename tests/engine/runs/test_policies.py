"""The three contract types have the policies that the decisions add up to."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from penstock import Audit, Dispatch, FullJitter, Policy, Schedule
from penstock.contract.backoff import delay
from penstock.contract.contract_types import complaint_rewrite, enrichment, review_processing
from penstock.contract.errors import SettingsInvalid
from penstock.contract.profiles import PROFILES, Profile


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@pytest.mark.contract("C-20", "C-23", "C-08")
def test_a_rewrite_follows_its_profile(profile: Profile) -> None:
    policy = complaint_rewrite(profile)

    assert (policy.stages, policy.attempts, policy.dispatch) == (("rewrite",), 2, Dispatch.SCHEDULED)
    assert policy.backoff == Schedule(profile.retry_backoff_seconds)
    assert policy.lease == timedelta(seconds=profile.claim_timeout_seconds) > policy.max_runtime
    assert (policy.drain_cap, policy.max_runtime) == (
        profile.max_jobs_per_run,
        timedelta(seconds=profile.max_runtime_seconds),
    )
    assert (policy.unknown_retryable, policy.stale_counts_attempt, policy.replayable) == (False, True, False)


@pytest.mark.contract("C-08", "C-25")
def test_a_review_has_three_stages_with_five_attempts_each() -> None:
    policy = review_processing()

    assert (policy.stages, policy.attempts) == (("fetch", "llm", "notify"), 5)
    assert policy.backoff == FullJitter(1, 2.0, 60)
    assert (policy.lease, policy.dispatch) == (timedelta(seconds=300), Dispatch.NOTIFY)
    assert (policy.drain_cap, policy.startup_cap, policy.channel) == (10, 100, "penstock_jobs")
    assert (policy.unknown_retryable, policy.stale_counts_attempt) == (False, True)
    assert (policy.replayable, policy.steps_required) == (True, True)


@pytest.mark.contract("C-08", "C-25")
def test_an_enrichment_has_four_attempts_and_forgives_expired_leases() -> None:
    policy = enrichment()

    assert (policy.stages, policy.attempts) == (("enrich",), 4)
    assert [delay(policy.backoff, k, None, lambda: 0.5).total_seconds() for k in (1, 2, 3)] == [0, 30, 300]
    assert delay(policy.backoff, 2, timedelta(seconds=200), lambda: 0.5) == timedelta(seconds=200)
    assert (policy.lease, policy.dispatch, policy.channel) == (
        timedelta(seconds=300),
        Dispatch.NOTIFY,
        "litevault_jobs",
    )
    assert (policy.drain_cap, policy.startup_cap) == (10, 100)
    assert (policy.stale_counts_attempt, policy.max_reclaims, policy.unknown_retryable) == (False, 5, True)


@pytest.mark.parametrize("policy", [complaint_rewrite(PROFILES["base"]), review_processing(), enrichment()])
def test_contract_types_keep_their_trail_and_no_message_of_an_error(policy: Policy) -> None:
    assert (policy.audit, policy.error_messages) == (Audit.FULL, False)
    assert (policy.keep_finished, policy.keep_keys) == (timedelta(days=90), None)


@pytest.mark.contract("C-20")
def test_a_scheduled_type_whose_lease_could_end_within_its_run_is_refused() -> None:
    policy = complaint_rewrite(PROFILES["base"])

    with pytest.raises(SettingsInvalid, match="lease of type 'complaint_rewrite' must be longer than max_runtime"):
        replace(policy, lease=policy.max_runtime)


@pytest.mark.contract("Q-85")
@pytest.mark.parametrize("cap", [0, -1])
def test_a_type_without_a_bound_is_refused(cap: int) -> None:
    with pytest.raises(SettingsInvalid, match="drain_cap"):
        replace(complaint_rewrite(PROFILES["base"]), drain_cap=cap)
    with pytest.raises(SettingsInvalid, match="max_runtime"):
        replace(complaint_rewrite(PROFILES["base"]), max_runtime=timedelta(seconds=cap))


def test_a_policy_takes_plain_words_and_refuses_unknown_ones() -> None:
    assert Policy("x", dispatch="notify", audit="full") == Policy("x", audit=Audit.FULL)  # type: ignore[arg-type]
    with pytest.raises(SettingsInvalid, match="dispatch of type 'x' must be one of notify, scheduled, not 'later'"):
        Policy("x", dispatch="later")  # type: ignore[arg-type]
