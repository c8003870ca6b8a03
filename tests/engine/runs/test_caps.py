"""A run stops at its caps; what is left keeps waiting as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import Failed, FailureClass, Job
from penstock.contract.claims import Claim
from penstock.contract.contract_types import complaint_rewrite
from penstock.contract.profiles import BASE, PROFILES
from penstock.engine.slots import Slots
from penstock.store import claims as claim_store
from tests.engine.runs.conftest import FUNCTION, Build, Press


@pytest.mark.contract("Q-58", "Q-59", "Q-09", "C-26")
async def test_a_run_takes_its_cap_and_leaves_the_others_as_they_were(press: Press) -> None:
    jobs = await press.fill(30)
    before = {job: dict(await press.job(job)) for job in jobs[25:]}

    await press.ran()

    assert await press.statuses() == {"completed": 25, "queued": 5}
    for job in jobs[25:]:
        assert dict(await press.job(job)) == before[job]
        assert (before[job]["attempt_count"], before[job]["last_error_code"], before[job]["claim_seq"]) == (0, None, 0)


@pytest.mark.contract("Q-63", "C-25")
async def test_no_claim_asks_for_more_than_is_left_of_the_cap(press: Press, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    taken: list[int] = []

    async def spy(*args: Any, limit: int, **options: Any) -> Sequence[Claim]:
        claims = await take(*args, limit=limit, **options)
        asked.append(limit)
        taken.append(len(claims))
        return claims

    take = claim_store.take
    monkeypatch.setattr(claim_store, "take", spy)
    await press.fill(60)

    await press.ran(concurrency=10)

    assert sum(taken) == 25
    assert all(limit <= 25 - sum(taken[:n]) for n, limit in enumerate(asked))
    assert asked[0] == 10, "free slots bound a claim too"


@pytest.mark.contract("Q-63", "Q-58")
async def test_one_claim_on_a_larger_queue_returns_exactly_the_cap(press: Press) -> None:
    await press.fill(40)

    run = await press.ran(concurrency=100)

    assert run.claimed == 25
    assert len(await press.rows("queued")) == 15


@pytest.mark.contract("Q-86", "Q-85")
async def test_a_provider_that_never_throttles_is_still_called_no_more_than_the_cap(press: Press) -> None:
    await press.fill(80)

    run = await press.ran()

    assert len(press.provider.calls) == 25
    assert run.rate_limited == 0


@pytest.mark.contract("Q-52")
async def test_no_job_starts_after_the_time_of_the_run(press: Press) -> None:
    clock = 0.0
    starts: list[float] = []

    def work(_job: Job, _args: dict[str, Any]) -> None:
        nonlocal clock
        starts.append(clock)
        clock += 100  # seconds that this job takes

    press.provider.answer = work
    await press.fill(5)

    run = await press.ran(concurrency=1, clock=lambda: clock)

    assert starts == [0, 100, 200]
    assert run.caps.runtime == timedelta(seconds=240)
    assert await press.statuses() == {"completed": 3, "queued": 2}


@pytest.mark.contract("C-26", "Q-60", "Q-52")
async def test_what_was_claimed_and_not_started_in_time_goes_back_for_a_minute(
    press: Press, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 0.0

    def work(_job: Job, _args: dict[str, Any]) -> None:
        nonlocal clock
        clock += 300  # the first job outlasts the run

    press.provider.answer = work
    monkeypatch.setattr(Slots, "room", lambda slots: max(0, 10 - slots.open))  # nine claimed ahead of one slot
    jobs = await press.fill(12)

    run = await press.ran(concurrency=1, clock=lambda: clock)

    assert (run.claimed, run.succeeded, run.requeued, run.failed) == (10, 1, 9, 0)
    now = await press.now()
    for job in jobs[1:10]:
        row = await press.job(job)
        assert (row["status"], row["claimed_by"], row["lease_expires_at"]) == ("queued", None, None)
        assert (row["attempt_count"], row["last_error_code"], row["last_error_at"]) == (0, None, None)
        assert timedelta(seconds=50) < row["run_at"] - now <= timedelta(seconds=60)
    assert [(await press.job(job))["claim_seq"] for job in jobs[10:]] == [0, 0]


@pytest.mark.contract("C-26", "Q-60")
async def test_waiting_claims_go_back_when_the_time_is_up_while_a_slow_job_runs_on(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    press: Press = await build(
        replace(complaint_rewrite(BASE), max_runtime=timedelta(seconds=1)), overflow_backoff_seconds=90
    )
    monkeypatch.setattr(Slots, "room", lambda slots: max(0, 3 - slots.open))
    jobs: list[Any] = []

    async def until_the_others_are_back(_job: Job, _args: dict[str, Any]) -> None:
        async with asyncio.timeout(20):
            while (await press.job(jobs[1]))["status"] != "queued":
                await press.owner.execute("select pg_sleep(0.01)")

    press.provider.answer = until_the_others_are_back
    jobs = await press.fill(3)

    run = await press.ran(concurrency=1)

    assert (run.claimed, run.succeeded, run.requeued) == (3, 1, 2)
    assert (await press.job(jobs[2]))["run_at"] > await press.now() + timedelta(seconds=60)


@pytest.mark.contract("Q-02", "Q-03")
async def test_at_ten_times_the_capacity_calls_stay_bounded_and_retries_wait(build: Build) -> None:
    press: Press = await build(profile="dev")  # five jobs a run, delays of 120 and 600 s
    due: dict[int, float] = {}
    early: list[int] = []

    async def every_third_fails_once(job: Job, args: dict[str, Any]) -> None:
        now = (await job_now(press)).timestamp()
        if now < due.get(args["n"], 0):
            early.append(args["n"])
        if args["n"] % 3 == 0 and job.attempt == 1:
            due[args["n"]] = now + 120
            raise Failed(FailureClass.UPSTREAM_5XX)

    press.provider.answer = every_third_fails_once
    await press.fill(50)
    runs = 0
    while (await press.statuses()).get("queued"):
        dispatched = await press.run()
        runs += 1
        states = await press.statuses()
        assert sum(states.values()) == 50
        assert "processing" not in states, "a run leaves nothing half-claimed"
        if dispatched.skipped or dispatched.run is None or dispatched.run.claimed < 5:
            await press.pass_time(seconds=120)
        assert runs < 60

    per_run = {run_id: 0 for run_id, _ in press.provider.calls}
    for run_id, _ in press.provider.calls:
        per_run[run_id] += 1
    assert max(per_run.values()) <= 5
    assert early == []
    assert len(press.provider.calls) == 50 + 17
    assert await press.statuses() == {"completed": 50}


async def job_now(press: Press) -> Any:
    async with press.app.pool.acquire() as connection:
        return await connection.fetchval("select penstock.now()")


@pytest.mark.contract("Q-04")
async def test_the_record_of_a_run_says_how_many_eligible_jobs_wait_for_the_next(press: Press) -> None:
    await press.fill(40)
    await press.fill(3, first=40, delay=timedelta(hours=1))  # not eligible yet

    await press.ran()

    (record,) = await press.records()
    assert record["left_waiting_count"] == 15


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.contract("Q-51", "Q-52", "Q-77")
async def test_the_profile_bounds_the_run_and_the_record_says_so(build: Build, profile: str) -> None:
    press: Press = await build(profile=profile)
    await press.fill(1)

    await press.ran()

    (record,) = await press.records()
    chosen = PROFILES[profile]
    assert record["max_jobs_per_run"] == chosen.max_jobs_per_run
    assert record["max_runtime_seconds"] == chosen.max_runtime_seconds
    assert (record["profile"], record["function"]) == (profile, FUNCTION)
    assert record["started_at"] <= record["finished_at"]


@pytest.mark.contract("Q-94", "Q-85")
async def test_an_environment_variable_overrides_what_the_profile_says(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROFILE", "stage")
    monkeypatch.setenv("PENSTOCK_MAX_JOBS_PER_RUN", "3")
    press: Press = await build()
    await press.fill(7)

    run = await press.ran()

    assert run.claimed == 3
    assert (await press.records())[0]["max_jobs_per_run"] == 3


@pytest.mark.contract("Q-54", "Q-55", "Q-11", "Q-56")
async def test_a_run_takes_due_queued_jobs_only_in_the_order_of_their_creation(press: Press) -> None:
    due = await press.fill(6)
    await press.fill(1, first=6, delay=timedelta(minutes=5))
    await press.fill(1, first=7, run_at=await press.now() - timedelta(days=1))
    canceled = due.pop(2)
    await press.owner.execute("select penstock.cancel($1, 'test', null)", canceled)
    elsewhere = due.pop(3)
    await press.owner.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'else',"
        " claimed_at = penstock.now(), lease_expires_at = penstock.now() + interval '1 hour' where job_id = $1",
        elsewhere,
    )

    await press.ran(concurrency=1)

    assert press.provider.numbers() == [0, 1, 3, 5, 7]
    assert (await press.job(canceled))["status"] == "canceled"
    assert (await press.job(elsewhere))["claimed_by"] == "else"

    await press.pass_time(minutes=5)
    await press.ran(concurrency=1)
    assert press.provider.numbers() == [0, 1, 3, 5, 7, 6]


@pytest.mark.contract("Q-04")
def test_waiting_for_the_next_run_is_documented_by_name() -> None:
    text = (Path(__file__).parents[3] / "docs/explanation/runs-and-backpressure.md").read_text()

    assert "## Waiting for the next run" in text
    assert "waits until the next scheduled run" in text
    assert "left_waiting_count" in text
