"""Stages that change while jobs wait, and results that cannot be kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from penstock import Penstock, Schedule
from penstock.contract.claims import Claim
from penstock.contract.errors import LeaseLost, SettingsInvalid
from penstock.contract.policies import Policy
from penstock.store import claims
from penstock.testing import Harness
from tests.engine.looking import letter
from tests.engine.looking import stages as counted


async def deployed(dsn: str, name: str, *stage_names: str, ran: list[str]) -> Harness:
    """The application as a deployment with these stages has it."""
    app = Penstock(dsn, grace_seconds=5)
    job_type = app.type(name, stages=stage_names, backoff=Schedule([0]))

    def declare(stage: str) -> None:
        @job_type.stage(stage)
        async def run(job: Any, args: Any) -> str:
            ran.append(stage)
            if args.get("fails_in") == stage and job.attempt == 1:
                raise TimeoutError
            return stage

    for stage in stage_names:
        declare(stage)
    return Harness(app)


@pytest.mark.contract("E-11", "C-12")
async def test_a_job_whose_stage_is_gone_fails_clearly_and_the_worker_goes_on(dsn: str) -> None:
    ran: list[str] = []
    async with await deployed(dsn, "review", "fetch", "llm", ran=ran) as old:
        waiting = await old.enqueue("review")
    async with await deployed(dsn, "review", "load", "llm", ran=ran) as new:
        fresh = await new.enqueue("review")
        await new.drain()
        dead = await letter(new, waiting)
        assert (dead["error_class"], dead["reason"], dead["stage"]) == ("CONFIG_INVALID", "non_retryable", "fetch")
        assert "no longer has the stage 'fetch'" in dead["last_stack"]
        assert await new.status(fresh) == "completed"
    assert ran == ["load", "llm"]


@pytest.mark.contract("C-12", "E-26")
async def test_a_job_of_one_stage_goes_on_when_its_type_gets_a_second(dsn: str) -> None:
    ran: list[str] = []
    async with await deployed(dsn, "mail", "send", ran=ran) as old:
        job_id = await old.enqueue("mail", {"fails_in": "send"})
        await (await old.worker()).work()
        assert (await old.job(job_id))["attempt_count"] == 1
    async with await deployed(dsn, "mail", "send", "log", ran=ran) as new:
        await new.drain()
        row = await new.job(job_id)
        assert (row["status"], row["stage"], row["staged"]) == ("completed", "log", True)
        assert await counted(new, job_id) == {"send": 1, "log": 0}
    assert ran == ["send", "send", "log"]


@pytest.mark.contract("C-12")
async def test_a_staged_job_ends_where_its_type_has_come_down_to_one_stage(dsn: str) -> None:
    ran: list[str] = []
    async with await deployed(dsn, "mail", "send", "log", ran=ran) as old:
        job_id = await old.enqueue("mail", {"fails_in": "send"})
        await (await old.worker()).work()
    async with await deployed(dsn, "mail", "send", ran=ran) as new:
        await new.drain()
        assert await new.status(job_id) == "completed"
        assert await counted(new, job_id) == {"send": 1}
    assert ran == ["send", "send"]


@pytest.mark.contract("E-26")
@pytest.mark.parametrize(
    "result",
    ["x" * 300_000, {"a": "\x00"}, {"a": "\ud800"}, float("nan"), object(), {1: 2}],
    ids=lambda r: type(r).__name__,
)
async def test_a_result_that_cannot_be_kept_ends_the_job_and_shows_nothing(app: Penstock, result: Any) -> None:
    review = app.type("review", stages=("fetch", "llm"))

    @review.stage("fetch")
    async def fetch(job: Any, args: Any) -> Any:
        return result

    @review.stage("llm")
    async def llm(job: Any, args: Any) -> None:
        raise AssertionError

    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        await harness.drain()
        dead = await letter(harness, job_id)
        assert (dead["error_class"], dead["stage"]) == ("PAYLOAD_REJECTED", "fetch")
        assert "xxxx" not in dead["last_stack"]


@pytest.mark.contract("E-26")
async def test_a_stage_that_has_not_run_has_no_result(app: Penstock) -> None:
    review = app.type("review", stages=("fetch", "llm"))

    @review.stage("fetch")
    async def fetch(job: Any, args: Any) -> None:
        with pytest.raises(SettingsInvalid, match="has not finished"):
            job.result("llm")

    @review.stage("llm")
    async def llm(job: Any, args: Any) -> None:
        assert job.result("fetch") is None

    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        await harness.drain()
        assert await harness.status(job_id) == "completed"


@pytest.mark.contract("C-63")
async def test_a_time_limit_for_a_stage_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingsInvalid, match="fetch, llm"):
        Policy("review", stages=("fetch", "llm"), timeout={"notify": timedelta(seconds=1)})
    policy = Policy("review", stages=("fetch", "llm"), timeout={"llm": None})
    assert policy.timeout_of("llm") is None
    assert policy.timeout_of("fetch") == timedelta(hours=1)
    assert policy.to_json()["timeout"] == {"llm": None}


async def parked(app: Penstock, harness: Harness) -> Claim:
    """A job of two stages that waits in a provider's batch, as the batch lane leaves it."""
    await harness.enqueue("review")
    [claim] = await claims.take(
        app.pool, ["review"], [timedelta(minutes=5)], [claims.START], limit=1, worker="submitter", run=uuid4()
    )
    await app.pool.execute(
        "update penstock.jobs set status = 'batch_submitted', lease_expires_at = null, claimed_by = null, "
        "claimed_at = null, provider_batch_id = 'b1' where job_id = $1",
        claim.job_id,
    )
    return claim


@pytest.mark.contract("C-31")
async def test_a_claim_that_lost_its_lease_saves_no_result(app: Penstock) -> None:
    review = app.type("review", stages=("fetch", "llm"))
    ran: list[tuple[str, int]] = []

    @review.stage("fetch")
    async def fetch(job: Any, args: Any) -> str:
        ran.append(("fetch", job.claim_seq))
        if job.claim_seq == 1:
            await app.pool.execute(
                "update penstock.jobs set status = 'queued', lease_expires_at = null, claimed_by = null, "
                "claimed_at = null where job_id = $1",
                job.job_id,
            )
        return f"by claim {job.claim_seq}"

    @review.stage("llm")
    async def llm(job: Any, args: Any) -> None:
        ran.append(("llm", job.claim_seq))
        assert job.result("fetch") == "by claim 2"

    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"]) == ("completed", 0)
    assert ran == [("fetch", 1), ("fetch", 2), ("llm", 2)]


async def test_advancing_from_another_stage_is_refused(app: Penstock) -> None:
    app.type("review", stages=("fetch", "llm"))
    async with Harness(app) as harness:
        claim = await parked(app, harness)
        with pytest.raises(LeaseLost):
            await claims.advance(app.pool, "submitter", claim, "llm", None)
