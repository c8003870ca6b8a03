"""Budgets: how often a job is tried, and what its row says after each failure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock import Failed, FailureClass, FullJitter, Penstock, Schedule
from penstock.testing import Harness
from tests.engine.looking import HttpError, alerts, letter, waits


@pytest.mark.contract("Q-67", "Q-68", "Q-69", "C-08", "D-60")
async def test_two_attempts_with_an_exact_schedule_fail_the_job_at_the_second(app: Penstock) -> None:
    calls: list[int] = []

    @app.job("rewrite", attempts=2, backoff=Schedule([900, 7200]))
    async def rewrite(job: Any, args: Any) -> None:
        calls.append(job.attempt)
        raise HttpError(503)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("rewrite")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"]) == ("queued", 1)
        assert await waits(harness, job_id) == timedelta(seconds=900)
        assert (row["last_error_code"], row["claimed_by"], row["lease_expires_at"]) == ("NETWORK_RESET", None, None)

        await harness.pass_time(seconds=899)
        assert await harness.drain() == 0
        await harness.pass_time(seconds=2)
        await harness.drain()

        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"]) == ("failed", 2)
        assert await harness.drain() == 0
    assert calls == [1, 2]


@pytest.mark.contract("C-09", "D-55", "D-56", "D-57", "D-58")
async def test_the_table_of_the_design_is_the_delay_after_each_failed_attempt(app: Penstock) -> None:
    """0 s, 30 s, 5 min, and the fourth failure is the last: max 3 retries."""
    calls: list[int] = []

    @app.job("enrich", attempts=4, backoff=Schedule([0, 30, 300], honours_retry_after=True))
    async def enrich(job: Any, args: Any) -> None:
        calls.append(job.attempt)
        raise RuntimeError

    async with Harness(app) as harness:
        job_id = await harness.enqueue("enrich")
        hand = await harness.worker()
        for seconds in (0, 30, 300):
            await harness.pass_time(seconds=seconds)
            await hand.work()
            assert await waits(harness, job_id) == timedelta(
                seconds={1: 0, 2: 30, 3: 300}[(await harness.job(job_id))["attempt_count"]]
            )
        before = (await harness.job(job_id))["run_at"]
        await harness.pass_time(seconds=301)
        await hand.work()

        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"]) == ("failed", 4)
        assert row["run_at"] == before  # no further time was set
        assert not await hand.work()
    assert calls == [1, 2, 3, 4]


@pytest.mark.contract("D-59", "D-11", "C-08")
@pytest.mark.parametrize(("failures", "status"), [(3, "completed"), (4, "failed")])
async def test_the_boundary_of_three_retries(app: Penstock, failures: int, status: str) -> None:
    calls: list[int] = []

    @app.job("enrich", attempts=4, backoff=Schedule([0]))
    async def enrich(job: Any, args: Any) -> None:
        calls.append(job.attempt)
        if len(calls) <= failures:
            raise RuntimeError

    async with Harness(app) as harness:
        job_id = await harness.enqueue("enrich")
        await harness.drain()
        assert await harness.status(job_id) == status
    assert len(calls) == 4


@pytest.mark.contract("E-04", "E-23", "E-25")
async def test_the_fifth_failure_of_a_stage_is_its_last(app: Penstock) -> None:
    calls: list[int] = []

    @app.job("review", attempts=5)
    async def review(job: Any, args: Any) -> None:
        calls.append(job.attempt)
        raise Failed(FailureClass.UPSTREAM_5XX, upstream_status=500)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        await harness.work_until_idle()
        dead = await letter(harness, job_id)
        assert await harness.status(job_id) == "failed"
        assert (dead["reason"], dead["error_class"], dead["attempts"]) == ("budget_exhausted", "UPSTREAM_5XX", 5)
        assert (dead["stage"], dead["retryable"]) == ("run", True)
    assert calls == [1, 2, 3, 4, 5]


@pytest.mark.contract("E-20")
async def test_a_failure_that_turns_out_hopeless_stops_at_once(app: Penstock) -> None:
    calls: list[int] = []

    @app.job("review", attempts=5)
    async def review(job: Any, args: Any) -> None:
        calls.append(job.attempt)
        raise HttpError(503 if job.attempt == 1 else 403)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        await harness.work_until_idle()
        dead = await letter(harness, job_id)
        assert (dead["reason"], dead["error_class"], dead["attempts"]) == ("non_retryable", "AUTH_DENIED", 2)
    assert calls == [1, 2]


@pytest.mark.contract("C-07", "A-22")
async def test_attempts_are_told_from_one_and_stored_from_zero(app: Penstock) -> None:
    seen: list[tuple[int, int]] = []

    @app.job("echo", backoff=Schedule([0]))
    async def echo(job: Any, args: Any) -> None:
        stored = await app.pool.fetchval("select attempt_count from penstock.jobs where job_id = $1", job.job_id)
        seen.append((job.attempt, stored))
        if len(seen) < 3:
            raise TimeoutError

    async with Harness(app) as harness:
        job_id = await harness.enqueue("echo")
        assert (await harness.job(job_id))["attempt_count"] == 0
        await harness.drain()
        assert (await harness.job(job_id))["attempt_count"] == 2
    assert seen == [(1, 0), (2, 1), (3, 2)]


@pytest.mark.contract("E-05")
@pytest.mark.parametrize(("idempotent", "status"), [(True, "queued"), (False, "failed")])
async def test_a_conflict_is_retried_only_where_the_step_may_run_twice(
    app: Penstock, idempotent: bool, status: str
) -> None:
    @app.job("write", idempotent=idempotent, backoff=Schedule([60]))
    async def write(job: Any, args: Any) -> None:
        raise HttpError(409)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        assert await harness.status(job_id) == status


@pytest.mark.contract("E-11", "E-01")
@pytest.mark.parametrize(("retried", "status"), [(True, "queued"), (False, "failed")])
async def test_an_exception_that_nobody_knows_follows_the_policy(app: Penstock, retried: bool, status: str) -> None:
    @app.job("odd", unknown_retryable=retried, backoff=Schedule([60]))
    async def odd(job: Any, args: Any) -> None:
        raise ZeroDivisionError

    async with Harness(app) as harness:
        job_id = await harness.enqueue("odd")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["last_error_code"]) == (status, "RUNTIME_BUG")
        assert await alerts(harness) == ([] if retried else [("runtime_bug", "page")])


@pytest.mark.contract("D-15", "E-17")
async def test_a_backoff_is_drawn_anew_at_each_failure_and_only_then(app: Penstock) -> None:
    draws = iter([0.25, 0.5, 1.0])
    asked: list[float] = []

    @app.job("jitter", backoff=FullJitter(1, 2.0, 60))
    async def jitter(job: Any, args: Any) -> None:
        raise TimeoutError

    def draw() -> float:
        asked.append(next(draws))
        return asked[-1]

    async with Harness(app) as harness:
        hand = await harness.worker()
        hand.place.random = draw
        job_id = await harness.enqueue("jitter")
        assert asked == []
        delays = []
        for _ in range(3):
            await hand.work()
            delays.append((await waits(harness, job_id)).total_seconds())
            await harness.pass_time(seconds=60)
    assert delays == [0.25 * 1, 0.5 * 2, 1.0 * 4]
    assert asked == [0.25, 0.5, 1.0]
