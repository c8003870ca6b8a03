"""The profiles, their numbers, and what no override may do."""

import dataclasses
from typing import Any

import pytest

from penstock.contract.errors import SettingsInvalid
from penstock.contract.profiles import PROFILES, Profile, profile
from penstock.contract.statuses import Status


def five(name: str) -> tuple[int, int, int, tuple[float, ...], int]:
    p = profile(name)
    return p.worker_minutes, p.max_jobs_per_run, p.max_runtime_seconds, p.retry_backoff_seconds, p.claim_timeout_seconds


@pytest.mark.contract("Q-51", "Q-53", "Q-57", "C-24")
def test_without_a_profile_the_base_holds() -> None:
    base = profile("base")

    assert base == Profile()
    assert (base.max_jobs_per_run, base.max_runtime_seconds, base.claim_timeout_seconds) == (25, 240, 600)
    assert base.retry_backoff_seconds == (900, 7200)


@pytest.mark.contract("Q-54", "Q-55", "Q-56")
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_profile_claims_queued_due_jobs_in_the_order_of_creation(name: str) -> None:
    p = profile(name)

    assert p.order == "created_at_asc"
    assert p.eligible_statuses == (Status.QUEUED,)
    assert p.respect_not_before_at is True


@pytest.mark.contract("Q-45", "Q-46", "C-24")
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_submitter_runs_every_15_and_the_collector_every_30_minutes(name: str) -> None:
    assert (profile(name).submitter_minutes, profile(name).collector_minutes) == (15, 30)


@pytest.mark.contract("Q-91")
def test_the_dev_profile() -> None:
    assert five("dev") == (120, 5, 120, (120, 600), 300)


@pytest.mark.contract("Q-92")
def test_the_stage_profile() -> None:
    assert five("stage") == (30, 30, 180, (300, 1800), 900)


@pytest.mark.contract("Q-93", "C-24")
def test_the_prod_profile() -> None:
    assert five("prod") == (60, 200, 240, (3600, 21600), 3600)


@pytest.mark.contract("Q-93", "C-24")
@pytest.mark.parametrize(("minutes", "fits"), [(59, False), (60, True), (61, True), (120, True), (121, False)])
def test_prod_runs_every_hour_or_two_and_nothing_else(minutes: int, fits: bool) -> None:
    slow = (7260, 21600)
    if fits:
        assert profile("prod", worker_minutes=minutes, retry_backoff_seconds=slow).worker_minutes == minutes
    else:
        with pytest.raises(SettingsInvalid, match=r"60\.\.120"):
            profile("prod", worker_minutes=minutes, retry_backoff_seconds=slow)


LIMITS = ["max_jobs_per_run", "max_runtime_seconds", "claim_timeout_seconds", "submitter_minutes", "collector_minutes",
          "worker_minutes", "collector_max_items", "overflow_backoff_seconds", "arrivals_per_hour"]  # fmt: skip


@pytest.mark.contract("Q-85")
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", [0, -1, 10**12, 1.5, "25", True])
def test_no_limit_is_zero_negative_absurd_or_no_number(name: str, value: Any) -> None:
    with pytest.raises(SettingsInvalid, match=name):
        profile("base", **{name: value})


@pytest.mark.contract("Q-85")
@pytest.mark.parametrize("name", ["max_jobs_per_run", "max_runtime_seconds"])
def test_no_profile_is_made_without_its_limits(name: str) -> None:
    unbounded: dict[str, Any] = {name: None}

    with pytest.raises(SettingsInvalid, match=f"{name} must be a whole number"):
        Profile(**unbounded)


@pytest.mark.contract("C-20")
def test_a_lease_that_does_not_outlast_its_run_is_refused() -> None:
    with pytest.raises(SettingsInvalid, match="claim_timeout_seconds 240 must be above max_runtime_seconds 240"):
        profile("base", claim_timeout_seconds=240)

    assert profile("base", claim_timeout_seconds=241).claim_timeout_seconds == 241


@pytest.mark.contract("C-20")
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_profile_has_a_lease_that_outlasts_its_run(name: str) -> None:
    assert profile(name).claim_timeout_seconds > profile(name).max_runtime_seconds


@pytest.mark.contract("Q-95")
def test_in_prod_no_retry_comes_before_the_next_run() -> None:
    with pytest.raises(SettingsInvalid, match="at least the cadence of 3600 s"):
        profile("prod", retry_backoff_seconds=(3599, 21600))

    assert profile("dev", retry_backoff_seconds=(1, 2)).retry_backoff_seconds == (1, 2)


@pytest.mark.contract("Q-95")
def test_a_cap_that_cannot_drain_what_arrives_is_refused() -> None:
    assert profile("prod", arrivals_per_hour=200).arrivals_per_hour == 200
    with pytest.raises(SettingsInvalid, match="drain 200 an hour, but 201 arrive"):
        profile("prod", arrivals_per_hour=201)
    assert profile("prod", arrivals_per_hour=201, max_jobs_per_run=201).arrivals_per_hour == 201


@pytest.mark.contract("C-25")
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_profile_collects_faster_than_it_submits(name: str) -> None:
    p = profile(name)

    assert p.collector_cap / p.collector_minutes >= 1.5 * p.max_jobs_per_run / p.submitter_minutes


@pytest.mark.contract("C-25")
def test_a_collector_slower_than_one_and_a_half_times_the_submitter_is_refused() -> None:
    with pytest.raises(SettingsInvalid, match="raise collector_max_items to 75"):
        profile("base", collector_max_items=74)

    assert profile("base", collector_max_items=75).collector_cap == 75


@pytest.mark.contract("Q-94")
def test_an_override_changes_one_value_and_leaves_the_profile_alone() -> None:
    assert profile("stage", max_jobs_per_run=31) == dataclasses.replace(PROFILES["stage"], max_jobs_per_run=31)
    assert profile("stage", max_jobs_per_run=None) == PROFILES["stage"]


@pytest.mark.parametrize(
    ("name", "overrides", "words"),
    [
        ("production", {}, "no profile 'production'; choose one of base, dev, stage, prod"),
        ("base", {"max_jobs": 3}, "a profile has no value 'max_jobs'"),
        ("base", {"retry_backoff_seconds": (-1,)}, "delay 1 of the schedule"),
        ("base", {"retry_backoff_seconds": ()}, "1 to 100 delays"),
        ("base", {"order": "random"}, "created_at_asc"),
        ("base", {"eligible_statuses": ("failed",)}, "only queued jobs"),
        ("base", {"respect_not_before_at": False}, "before it is due"),
    ],
)
def test_a_profile_that_makes_no_sense_is_refused(name: str, overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsInvalid, match=words.replace("(", r"\(")):
        profile(name, **overrides)
