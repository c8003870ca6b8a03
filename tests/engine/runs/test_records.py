"""Every run of a schedule or an admin leaves a record: who, when, how much, and what went wrong."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
import structlog

from penstock import Failed, FailureClass, Job, Penstock
from penstock.contract.claims import Trigger
from penstock.testing import Harness
from tests.engine.runs.conftest import FUNCTION, TYPE, Build, Press


@pytest.mark.contract("Q-08")
async def test_each_call_of_a_function_is_one_run_with_its_trigger(press: Press) -> None:
    await press.fill(60)

    first = await press.ran(Trigger.SCHEDULE)
    second = await press.ran(Trigger.ADMIN)

    records = await press.records()
    assert [(r["run_id"], r["trigger"]) for r in records] == [(first.run_id, "schedule"), (second.run_id, "admin")]
    claims = await press.owner.fetch("select run_id, count(*) from penstock.jobs where claim_seq > 0 group by run_id")
    assert {row["run_id"]: row["count"] for row in claims} == {first.run_id: 25, second.run_id: 25}


@pytest.mark.contract("Q-78", "Q-79")
async def test_the_counts_of_a_mixed_run_match_what_became_of_its_jobs(press: Press) -> None:
    outcomes = {0: FailureClass.RATE_LIMITED, 1: FailureClass.SCHEMA_INVALID, 2: FailureClass.UPSTREAM_5XX}

    def answer(_job: Job, args: dict[str, Any]) -> None:
        if args["n"] in outcomes:
            raise Failed(outcomes[args["n"]])

    press.provider.answer = answer
    for n in range(8):
        await press.app.enqueue(TYPE, {"n": n, "provider": "google" if n > 5 else "openai", "model": f"m{n % 2}"})

    await press.ran()

    (record,) = await press.records()
    assert (record["claimed_count"], record["succeeded_count"]) == (8, 5)
    assert (record["failed_count"], record["requeued_count"]) == (1, 2)
    assert await press.statuses() == {"completed": 5, "failed": 1, "queued": 2}
    assert json.loads(record["by_model"]) == {"openai/m0": 3, "openai/m1": 3, "google/m0": 1, "google/m1": 1}
    assert json.loads(record["by_error"]) == {"RATE_LIMITED": 1, "SCHEMA_INVALID": 1, "UPSTREAM_5XX": 1}
    assert record["rate_limited_count"] == 1


@pytest.mark.contract("Q-79")
async def test_a_model_whose_name_cannot_be_stored_is_counted_all_the_same(press: Press) -> None:
    def answer(job: Job, _args: dict[str, Any]) -> None:
        job.count_call("a\x00b", "\ud800")
        job.count_call("long", "x" * 10_000)

    press.provider.answer = answer
    await press.fill(1)

    await press.ran()

    (record,) = await press.records()
    counted = json.loads(record["by_model"])
    assert (counted["a\\x00b/\\ud800"], counted["openai/small"]) == (1, 1)
    assert max(map(len, counted)) == 200


@pytest.mark.contract("Q-79")
async def test_a_record_that_the_server_refuses_is_dropped_and_the_ends_of_jobs_stand(
    app: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.recorder.IDLE_SAVE", 60.0)  # with the next set of ends, or the last word

    @app.job("plain", attempts=1)
    async def plain(job: Any, args: dict[str, bool]) -> None:
        if args["bad"]:
            job._running.run.by_model["\x00"] += 1

    with structlog.testing.capture_logs() as lines:
        async with Harness(app) as harness:
            for bad in (True, False, True):
                await harness.enqueue("plain", {"bad": bad})
                await harness.drain()
            trail = [bad["run_id"] for bad in lines if bad["event"] == "run_dropped"]
            assert len(trail) == 1  # it went with the ends of the second drain
            async with harness.connection() as db:
                assert await db.fetch("select status, last_error_code from penstock.jobs") == [("completed", None)] * 3
        trail = [line["run_id"] for line in lines if line["event"] == "run_dropped"]
        assert len(set(trail)) == 2
    assert [line for line in lines if line["event"] == "internal_error"] == []


@pytest.mark.contract("Q-79")
async def test_a_rate_limit_that_ends_a_job_is_counted_as_one(press: Press) -> None:
    def throttled(_job: Job, _args: dict[str, Any]) -> None:
        raise Failed(FailureClass.RATE_LIMITED)

    press.provider.answer = throttled
    await press.fill(1)
    await press.ran()
    await press.pass_time(seconds=900)

    await press.ran()

    assert await press.statuses() == {"failed": 1}
    assert [r["rate_limited_count"] for r in await press.records()] == [1, 1]


@pytest.mark.contract("Q-77", "Q-78", "Q-79")
async def test_a_run_logs_its_times_its_cap_and_all_its_counts(press: Press) -> None:
    await press.fill(3)

    with structlog.testing.capture_logs() as lines:
        run = await press.ran()

    (line,) = [line for line in lines if line["event"] == "run_finished"]
    (record,) = await press.records()
    assert line["run_id"] == str(run.run_id)
    assert line["max_jobs_per_run"] == 25
    assert (line["started_at"], line["finished_at"]) == (
        record["started_at"].isoformat(),
        record["finished_at"].isoformat(),
    )
    counts = ("claimed_count", "succeeded_count", "failed_count", "requeued_count", "rate_limited_count")
    assert {name: line[name] for name in counts} == dict(zip(counts, (3, 3, 0, 0, 0), strict=True))
    assert line["by_model"] == {"openai/small": 3}


@pytest.mark.contract("C-55", "Q-77")
async def test_a_run_is_on_record_from_its_first_moment_also_when_it_never_ends(press: Press) -> None:
    seen: list[dict[str, Any]] = []

    async def look(job: Job, _args: dict[str, Any]) -> None:
        row = await press.owner.fetchrow("select * from penstock.runs where run_id = $1", job.run_id)
        seen.append(dict(row) if row else {})

    press.provider.answer = look
    await press.fill(1)

    await press.ran()

    assert seen[0]["finished_at"] is None
    assert (await press.records())[0]["finished_at"] is not None


@pytest.mark.contract("C-55")
async def test_a_run_that_claims_nothing_leaves_a_record_all_the_same(press: Press) -> None:
    await press.fill(2)
    await press.owner.execute("update penstock.types set paused_at = penstock.now(), paused_by = 'test'")

    await press.ran()

    (record,) = await press.records()
    assert (record["claimed_count"], record["left_waiting_count"]) == (0, 2)
    assert record["finished_at"] is not None


@pytest.mark.contract("Q-12")
@pytest.mark.parametrize("mode", ["async", "batch"])
async def test_a_job_is_processing_from_its_claim_on_in_both_modes(press: Press, mode: str) -> None:
    seen: list[Any] = []

    async def look(job: Job, _args: dict[str, Any]) -> None:
        seen.append(await press.job(job.job_id))

    press.provider.answer = look
    await press.app.enqueue(TYPE, {"n": 0, "routing_decision": {"execution_mode": mode}})

    await press.ran()

    (row,) = seen
    (record,) = await press.records()
    assert row["status"] == "processing"
    assert row["claimed_by"] == record["worker_id"]
    assert row["claimed_at"] is not None


@pytest.mark.contract("Q-80")
async def test_a_finished_job_tells_its_status_attempts_route_and_times(press: Press) -> None:
    route = {"provider": "openai", "model": "small", "execution_mode": "async", "max_retries": 2}

    def fail_once(job: Job, _args: dict[str, Any]) -> None:
        if job.attempt == 1:
            raise Failed(FailureClass.NETWORK_RESET)

    press.provider.answer = fail_once
    job = await press.app.enqueue(TYPE, {"n": 0, "routing_decision": route})
    await press.ran()
    await press.pass_time(seconds=900)
    await press.ran()

    row = await press.job(job)
    assert (row["status"], row["attempt_count"]) == ("completed", 1)
    assert json.loads(row["payload"])["routing_decision"] == route
    assert row["created_at"] < row["last_error_at"] < row["claimed_at"] <= row["finished_at"] <= row["updated_at"]


@pytest.mark.contract("Q-30", "C-08")
async def test_a_new_rewrite_job_has_a_budget_of_two(press: Press) -> None:
    (job,) = await press.fill(1)

    assert (await press.job(job))["max_attempts"] == 2
    assert (await press.job(job))["attempt_count"] == 0


@pytest.mark.contract("C-20")
async def test_the_lease_is_the_claim_timeout_and_only_its_expiry_counts(build: Build) -> None:
    press: Press = await build(profile="stage")
    seen: list[Any] = []

    async def look(job: Job, _args: dict[str, Any]) -> None:
        seen.append(await press.job(job.job_id))

    press.provider.answer = look
    await press.fill(1)
    await press.ran()
    assert seen[0]["lease_expires_at"] - seen[0]["claimed_at"] == timedelta(seconds=900)

    renewed, expired = await press.fill(2, first=1)
    for job, left in ((renewed, 1), (expired, -1)):
        await press.owner.execute(
            "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'gone',"
            " claimed_at = penstock.now() - interval '2 hours', lease_expires_at = penstock.now() + $2"
            " where job_id = $1",
            job,
            timedelta(minutes=left),
        )
    await press.ran()
    assert (await press.job(renewed))["status"] == "processing"
    assert (await press.job(expired))["status"] == "completed"
    assert (await press.job(expired))["attempt_count"] == 1


async def test_a_function_that_is_not_there_is_named_with_those_that_are(press: Press) -> None:
    with pytest.raises(Exception, match=f"no function 'nope'; this application has .*{FUNCTION}"):
        await press.app.run_function("nope", insecure=True)
