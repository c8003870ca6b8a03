"""Stages: each has its budget and its saved result."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from penstock import Failed, FailureClass, Penstock, Schedule
from penstock.contract.contract_types import review_processing
from penstock.testing import Harness
from tests.engine.looking import letter, stages


def reviewing(app: Penstock, failures: dict[str, int], calls: Counter[str], **policy: Any) -> None:
    """A review whose stages fail as often as *failures* says, and count their calls."""
    review = app.type("review", stages=("fetch", "llm", "notify"), backoff=Schedule([0]), **policy)

    def stage(name: str) -> None:
        @review.stage(name)
        async def run(job: Any, args: Any) -> dict[str, str]:
            calls[name] += 1
            if calls[name] <= failures.get(name, 0):
                raise Failed(FailureClass.UPSTREAM_5XX)
            return {"from": name}

    for name in ("fetch", "llm", "notify"):
        stage(name)


@pytest.mark.contract("E-21", "E-24", "C-12")
async def test_four_failures_in_one_stage_and_four_in_the_next_leave_the_job_alive(app: Penstock) -> None:
    calls: Counter[str] = Counter()
    reviewing(app, {"fetch": 4, "llm": 4}, calls)
    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"]) == ("completed", 8)  # the sum, for reporting
        assert await stages(harness, job_id) == {"fetch": 4, "llm": 4, "notify": 0}
    assert calls == {"fetch": 5, "llm": 5, "notify": 1}


@pytest.mark.contract("E-23", "E-24", "E-25", "E-26")
async def test_the_fifth_failure_of_one_stage_dead_letters_with_that_stage_and_its_count(app: Penstock) -> None:
    calls: Counter[str] = Counter()
    reviewing(app, {"fetch": 2, "llm": 99}, calls)
    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        await harness.drain()
        dead = await letter(harness, job_id)
        assert (dead["stage"], dead["attempts"], dead["reason"]) == ("llm", 5, "budget_exhausted")
        assert await stages(harness, job_id) == {"fetch": 2, "llm": 5}
        assert (await harness.job(job_id))["stage"] == "llm"
    assert calls == {"fetch": 3, "llm": 5}  # a retry of llm never fetches again


@pytest.mark.contract("E-22", "E-23")
async def test_the_stages_of_a_review_are_three_and_the_budget_is_five() -> None:
    policy = review_processing()
    assert policy.stages == ("fetch", "llm", "notify")
    assert policy.attempts == 5


@pytest.mark.contract("E-26", "C-12")
async def test_saved_results_outlive_the_process_and_look_the_same_before_and_after(app: Penstock) -> None:
    seen: list[Any] = []
    fetched: list[int] = []
    review = app.type("review", stages=("fetch", "llm"), backoff=Schedule([0]))

    @review.stage("fetch")
    async def fetch(job: Any, args: Any) -> Any:
        fetched.append(1)
        return {"pair": (1, 2), "text": "é"}

    @review.stage("llm")
    async def llm(job: Any, args: Any) -> None:
        seen.append(job.result("fetch"))
        if len(seen) < 3:
            raise TimeoutError

    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        hand = await harness.worker()
        await hand.work()
        await harness.crash()
        await harness.pass_time(minutes=2)
        await harness.drain("another")
        assert await harness.status(job_id) == "completed"
    assert seen == [{"pair": [1, 2], "text": "é"}] * 3
    assert fetched == [1]


@pytest.mark.contract("C-12")
async def test_a_job_of_one_stage_has_one_row_in_the_view_and_none_in_the_table(app: Penstock) -> None:
    @app.job("echo", backoff=Schedule([0]))
    async def echo(job: Any, args: Any) -> None:
        if job.attempt < 3:
            raise TimeoutError

    async with Harness(app) as harness:
        job_id = await harness.enqueue("echo")
        assert await stages(harness, job_id) == {"run": 0}
        await harness.drain()
        row = await harness.job(job_id)
        [shown] = await app.pool.fetch("select * from penstock.job_stages where job_id = $1", job_id)
        assert shown["attempts"] == row["attempt_count"] == 2
        assert (shown["finished_at"], shown["first_failure_at"]) == (row["finished_at"], row["first_failure_at"])
        assert await app.pool.fetchval("select count(*) from penstock.stages") == 0


@pytest.mark.contract("C-12")
async def test_the_view_shows_when_each_stage_ended_the_last_one_included(app: Penstock) -> None:
    reviewing(app, {}, Counter())
    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        assert await stages(harness, job_id) == {"fetch": 0}
        await harness.drain()
        rows = await app.pool.fetch(
            "select stage, finished_at, result from penstock.job_stages where job_id = $1", job_id
        )
        done = (await harness.job(job_id))["finished_at"]
        assert {row["stage"] for row in rows if row["finished_at"] is not None} == {"fetch", "llm", "notify"}
        assert [row["finished_at"] for row in rows if row["stage"] == "notify"] == [done]


@pytest.mark.contract("E-24")
async def test_an_expired_lease_charges_the_stage_that_ran(app: Penstock) -> None:
    calls: Counter[str] = Counter()
    reviewing(app, {"fetch": 1, "llm": 0}, calls)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        await (await harness.worker()).work()  # fetch fails once
        await app.pool.execute(
            "update penstock.jobs set status = 'processing', claim_seq = claim_seq + 1, claimed_by = 'gone', "
            "stage = 'llm', claimed_at = penstock.now(), lease_expires_at = penstock.now() - interval '1 s' "
            "where job_id = $1",
            job_id,
        )
        await (await harness.worker()).fetcher.reap()
        assert await stages(harness, job_id) == {"fetch": 1, "llm": 1}


@pytest.mark.contract("C-63")
async def test_each_stage_may_have_a_time_limit_of_its_own(app: Penstock) -> None:
    review = app.type(
        "review",
        stages=("fetch", "llm"),
        attempts=1,
        timeout={"fetch": timedelta(hours=1), "llm": timedelta(seconds=0.05)},
    )

    @review.stage("fetch")
    async def fetch(job: Any, args: Any) -> None:
        await app.pool.execute("select pg_sleep(0.2)")

    @review.stage("llm")
    async def llm(job: Any, args: Any) -> None:
        await app.pool.execute("select pg_sleep(10)")

    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        await harness.drain()
        dead = await letter(harness, job_id)
        assert (dead["stage"], dead["error_class"]) == ("llm", "HANDLER_TIMEOUT")
