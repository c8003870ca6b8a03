"""What does not fit into a run goes back for a short while, and keeps every attempt (Q-60, C-26)."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from penstock.providers.port import BatchLimits, Submission
from tests.engine.batches.conftest import Lane, MakeLane

SIX = BatchLimits(items=6, body_bytes=100_000, window=timedelta(hours=24))


class Clock:
    """The clock of a run."""

    def __init__(self) -> None:
        self.shift = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.shift


async def overflowed(lane: Lane) -> None:
    """Four of ten went back: unlocked, uncharged, due in a minute."""
    rows = [row for row in await lane.jobs() if row["status"] == "queued"]
    assert await lane.statuses() == {"batch_submitted": 6, "queued": 4}
    assert all(row["claimed_by"] is None and row["lease_expires_at"] is None for row in rows)
    assert {row["attempt_count"] for row in rows} == {0}
    assert {row["run_at"] - row["updated_at"] for row in rows} == {timedelta(seconds=60)}


@pytest.mark.contract("Q-60", "C-26")
async def test_what_is_left_when_the_time_is_up_goes_back_for_a_minute(make_lane: MakeLane) -> None:
    lane, clock = await make_lane(limits=SIX), Clock()

    async def take_long(_: Submission) -> None:
        clock.shift = 3600.0

    lane.provider.before_create = take_long
    await lane.fill(10)

    run = await lane.submitted(clock=clock)

    await overflowed(lane)
    assert (run.claimed, run.succeeded, run.requeued) == (10, 6, 4)
    await lane.pass_time(seconds=61)
    await lane.submitted()
    assert await lane.statuses() == {"batch_submitted": 10}


@pytest.mark.contract("Q-60", "C-26")
async def test_a_run_makes_no_more_batches_than_it_may(make_lane: MakeLane) -> None:
    from penstock.engine.batches.lane import LaneSchedule

    lane = await make_lane(limits=SIX, lane={"schedule": LaneSchedule(batches_per_run=1)})
    await lane.fill(10)

    await lane.submitted()

    await overflowed(lane)


@pytest.mark.contract("C-25")
async def test_a_run_claims_no_more_than_its_cap(make_lane: MakeLane) -> None:
    lane = await make_lane(drain_cap=4)
    await lane.fill(10)

    run = await lane.submitted()

    assert run.claimed == 4
    rows = [row for row in await lane.jobs() if row["status"] == "queued"]
    assert {row["claim_seq"] for row in rows} == {0}


async def test_a_request_larger_than_any_batch_fails_by_its_own_class_and_alone(make_lane: MakeLane) -> None:
    lane = await make_lane(limits=BatchLimits(items=10, body_bytes=300, window=timedelta(hours=24)))
    (large,) = await lane.fill(1, text="x" * 400)
    (small,) = await lane.fill(1)

    await lane.submitted()

    row = await lane.job(large)
    assert (row["status"], row["last_error_code"]) == ("failed", "PAYLOAD_REJECTED")
    letter = await lane.owner.fetchrow("select * from penstock.dead_letters where job_id = $1", large)
    assert letter is not None
    assert "xxx" not in str(dict(letter))
    assert (await lane.job(small))["status"] == "batch_submitted"
