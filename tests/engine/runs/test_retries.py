"""A failed attempt waits as long as its profile says, to the second, and the second one is the last."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from penstock import Failed, FailureClass, Job, Schedule
from penstock.contract.contract_types import complaint_rewrite
from penstock.contract.profiles import BASE, PROFILES
from tests.engine.runs.conftest import Build, Press


def failing(error: FailureClass = FailureClass.UPSTREAM_5XX, retry_after: timedelta | None = None) -> Any:
    def fail(_job: Job, _args: dict[str, Any]) -> None:
        raise Failed(error, retry_after=retry_after)

    return fail


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.contract("Q-67", "Q-68")
async def test_a_failed_attempt_goes_back_for_exactly_the_first_delay(build: Build, profile: str) -> None:
    press: Press = await build(profile=profile)
    press.provider.answer = failing(retry_after=timedelta(seconds=7))
    jobs = await press.fill(5)

    await press.ran()

    first = PROFILES[profile].retry_backoff_seconds[0]
    for job in jobs:
        row = await press.job(job)
        assert (row["status"], row["attempt_count"], row["claimed_by"]) == ("queued", 1, None)
        assert row["run_at"] - row["last_error_at"] == timedelta(seconds=first)


@pytest.mark.contract("Q-68", "Q-02")
async def test_a_retry_is_not_taken_a_second_before_its_time(press: Press) -> None:
    press.provider.answer = failing()
    await press.fill(1)
    await press.ran()

    await press.pass_time(seconds=890)
    assert (await press.run()).skipped
    await press.pass_time(seconds=10)
    assert (await press.ran()).claimed == 1


@pytest.mark.contract("Q-69", "Q-70", "C-08", "C-10")
async def test_the_second_failure_of_two_is_final_and_says_why_and_when(press: Press) -> None:
    press.provider.answer = failing(FailureClass.NETWORK_TIMEOUT)
    (job,) = await press.fill(1)
    await press.ran()
    await press.pass_time(seconds=900)
    before = await press.now()

    await press.ran()

    row = await press.job(job)
    assert (row["status"], row["attempt_count"]) == ("failed", 2)
    assert row["last_error_code"] == "NETWORK_TIMEOUT"
    assert row["last_error_at"] >= before
    await press.pass_time(days=30)
    assert (await press.run()).skipped, "a failed job waits for nothing"


@pytest.mark.contract("C-10")
async def test_with_a_larger_budget_the_second_delay_comes_and_then_repeats(build: Build) -> None:
    press: Press = await build(replace(complaint_rewrite(BASE), attempts=4))
    press.provider.answer = failing()
    (job,) = await press.fill(1)
    delays = []
    for wait in (0, 900, 7200):
        await press.pass_time(seconds=wait)
        await press.ran()
        row = await press.job(job)
        delays.append((row["run_at"] - row["last_error_at"]).total_seconds())

    assert delays == [900, 7200, 7200]
    assert row["status"] == "queued"


@pytest.mark.contract("A-64")
@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_delays_of_every_profile_grow(profile: Any) -> None:
    backoff = complaint_rewrite(profile).backoff
    assert isinstance(backoff, Schedule)
    delays = backoff.delays
    assert len(delays) > 1
    assert all(later > earlier for earlier, later in pairwise(delays))


async def test_a_job_that_asks_for_another_round_at_once_cannot_exceed_the_cap(build: Build) -> None:
    press: Press = await build(profile="dev")

    def again(job: Job, _args: dict[str, Any]) -> None:
        job.snooze(timedelta(0))

    press.provider.answer = again
    await press.fill(2)

    run = await press.ran()

    assert (run.claimed, run.requeued, len(press.provider.calls)) == (5, 5, 5)
