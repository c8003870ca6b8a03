"""A submission that its provider does not take costs no job anything (C-37 e)."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from penstock import Breaker, Failed, FailureClass
from penstock.contract.calls import Route
from penstock.engine.batches.asking import GivenAdapters
from penstock.providers.port import Adapter
from tests.engine.batches.conftest import SUBMITTER, Lane, MakeLane
from tests.support.fake_provider import FakeAdapter, refusal

REFUSALS = [
    refusal(FailureClass.AUTH_DENIED, 401),
    refusal(FailureClass.QUOTA_EXHAUSTED, 429),
    refusal(FailureClass.CONFIG_INVALID, 404),
    refusal(FailureClass.SCHEMA_INVALID, 400),
    refusal(FailureClass.RATE_LIMITED, 429),
    refusal(FailureClass.RUNTIME_BUG, 418),
]


@pytest.mark.contract("C-37")
@pytest.mark.parametrize("step", ["upload", "create"])
@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: str(error.__cause__))
async def test_a_refused_submission_gives_every_job_back_and_opens_the_breaker(
    lane: Lane, error: Exception, step: str
) -> None:
    code = str(error.__cause__)
    (lane.provider.refuse_upload if step == "upload" else lane.provider.refuse_create).append(error)
    await lane.fill(3)

    run = await lane.submitted()

    rows = await lane.jobs()
    assert [(row["status"], row["attempt_count"], row["claimed_by"]) for row in rows] == [("queued", 0, None)] * 3
    assert {row["last_error_code"] for row in rows} == {code}
    assert (run.requeued, run.failed, run.by_error[code]) == (3, 0, 1)
    kind = await lane.type()
    assert (kind["breaker"], kind["breaker_code"]) == ("open", code)
    (alert,) = await lane.alerts("batch_submission_refused")
    assert code in alert["subject"]
    assert ((await lane.batch())["state"], (await lane.batch())["last_error_code"]) == ("abandoned", code)
    assert {row["state"] for row in await lane.effects()} == {"abandoned"}


async def test_what_the_provider_called_it_is_kept_if_our_table_knows_it(lane: Lane) -> None:
    error = refusal(FailureClass.QUOTA_EXHAUSTED, 429)
    error.__cause__ = Failed(FailureClass.QUOTA_EXHAUSTED, upstream_status=429, upstream_code="insufficient_quota")
    lane.provider.refuse_create.append(error)
    await lane.fill(1)

    await lane.submitted()

    (alert,) = await lane.alerts("batch_submission_refused")
    assert json.loads(alert["subject"])["upstream_code"] == "insufficient_quota"


@pytest.mark.contract("C-37")
async def test_no_other_batch_of_the_type_goes_out_behind_a_refused_one(lane: Lane) -> None:
    lane.provider.refuse_create.append(refusal(FailureClass.AUTH_DENIED, 401))
    await lane.fill(1)
    await lane.fill(1, model="large")

    await lane.submitted()

    assert lane.provider.count("create") == 1
    assert [(row["status"], row["attempt_count"]) for row in await lane.jobs()] == [("queued", 0)] * 2


@pytest.mark.contract("C-37")
async def test_what_was_refused_waits_as_long_as_the_breaker(make_lane: MakeLane) -> None:
    lane = await make_lane(breaker=Breaker(cooldown=timedelta(minutes=7)))
    lane.provider.refuse_create.append(refusal(FailureClass.AUTH_DENIED, 401))
    (job_id,) = await lane.fill(1)

    await lane.submitted()

    job, kind = await lane.job(job_id), await lane.type()
    assert job["run_at"] - job["updated_at"] == timedelta(minutes=7)
    assert kind["breaker_probe_at"] - kind["breaker_opened_at"] == timedelta(minutes=7)


@pytest.mark.contract("C-37")
async def test_back_pressure_is_waited_out_for_as_long_as_the_provider_says(lane: Lane) -> None:
    wait = timedelta(minutes=20)
    lane.provider.refuse_create.append(refusal(FailureClass.RATE_LIMITED, 429, retry_after=wait))
    (job_id,) = await lane.fill(1)

    run = await lane.submitted()

    job = await lane.job(job_id)
    assert job["run_at"] - job["updated_at"] == wait
    assert run.rate_limited == 1
    await lane.pass_time(minutes=15)
    assert (await lane.submit()).skipped


@pytest.mark.contract("C-37")
async def test_the_breaker_closes_when_a_probe_is_taken_and_the_rest_follows_at_once(lane: Lane) -> None:
    lane.provider.refuse_create.append(refusal(FailureClass.AUTH_DENIED, 401))
    await lane.fill(3)
    await lane.submitted()
    await lane.pass_time(minutes=2)

    await lane.submitted()

    assert (await lane.type())["breaker"] == "closed"
    assert [len(batch.lines) for batch in lane.provider.batches] == [1, 2]
    assert await lane.statuses() == {"batch_submitted": 3}


@pytest.mark.contract("C-37")
async def test_a_probe_that_is_refused_again_costs_nothing_and_is_told_once(lane: Lane) -> None:
    await lane.fill(3)
    for _ in range(4):
        lane.provider.refuse_create.append(refusal(FailureClass.AUTH_DENIED, 401))
        await lane.submitted()
        await lane.pass_time(minutes=3)

    assert lane.provider.count("create") == 4
    assert [(row["status"], row["attempt_count"]) for row in await lane.jobs()] == [("queued", 0)] * 3
    assert len(await lane.alerts("batch_submission_refused")) == 1


@pytest.mark.contract("Q-71", "C-40")
async def test_no_other_provider_is_asked_when_one_refuses(lane: Lane) -> None:
    other = FakeAdapter(lane.provider, kind="other")
    lane.app.use_adapters({"fake": lambda _url: FakeAdapter(lane.provider), "other": lambda _url: other})
    lane.provider.refuse_create.append(refusal(FailureClass.QUOTA_EXHAUSTED, 429))
    await lane.fill(2)

    await lane.submitted()

    assert lane.provider.asked == ["upload", "create"]
    assert {row["adapter"] for row in await lane.batches()} == {"fake"}


@pytest.mark.parametrize(
    "error", [Failed(FailureClass.UPSTREAM_5XX, upstream_status=503), ConnectionResetError(), TimeoutError()]
)
async def test_an_upload_that_failed_in_passing_gives_the_jobs_back_and_opens_nothing(
    lane: Lane, error: Exception
) -> None:
    lane.provider.refuse_upload.append(error)
    await lane.fill(2)

    await lane.submitted()

    assert [(row["status"], row["attempt_count"]) for row in await lane.jobs()] == [("queued", 0)] * 2
    assert (await lane.type())["breaker"] == "closed"
    await lane.pass_time(minutes=2)
    await lane.submitted()
    assert await lane.statuses() == {"batch_submitted": 2}


class _WithoutKey(GivenAdapters):
    def get(self, route: Route) -> Adapter:  # noqa: ARG002 - nobody has a key
        raise Failed(FailureClass.CONFIG_INVALID)


@pytest.mark.contract("C-37")
async def test_a_missing_key_costs_no_job_anything(lane: Lane) -> None:
    lane.app._adapters = _WithoutKey({"fake": lambda _url: FakeAdapter(lane.provider)})
    await lane.fill(2)

    await lane.submitted()

    assert [(row["status"], row["attempt_count"]) for row in await lane.jobs()] == [("queued", 0)] * 2
    assert (await lane.type())["breaker"] == "open"
    assert len(await lane.alerts("batch_submission_refused")) == 1
    assert await lane.batches() == []


async def test_a_job_that_names_an_unknown_adapter_fails_and_takes_no_other_along(lane: Lane) -> None:
    (bad,) = await lane.fill(1, adapter="nobody")
    (good,) = await lane.fill(1)

    await lane.submitted()

    assert (await lane.job(bad))["last_error_code"] == "CONFIG_INVALID"
    assert (await lane.job(bad))["status"] == "failed"
    assert (await lane.job(good))["status"] == "batch_submitted"


async def test_a_request_that_its_adapter_cannot_write_fails_alone(lane: Lane) -> None:
    ids = [*await lane.fill(1), *await lane.fill(1, text="impossible"), *await lane.fill(1)]

    await lane.submitted()

    statuses = [(await lane.job(job_id))["status"] for job_id in ids]
    assert statuses == ["batch_submitted", "failed", "batch_submitted"]
    assert (await lane.job(ids[1]))["last_error_code"] == "SCHEMA_INVALID"
    assert [item["batch_item_index"] for item in await lane.items()] == [0, 1]


async def test_the_record_of_a_run_tells_of_the_refusal(lane: Lane) -> None:
    lane.provider.refuse_create.append(refusal(FailureClass.AUTH_DENIED, 401))
    await lane.fill(2)

    await lane.submitted()

    row = await lane.owner.fetchrow("select * from penstock.runs where function = $1", SUBMITTER)
    assert row is not None
    assert (row["claimed_count"], row["requeued_count"]) == (2, 2)
    assert "AUTH_DENIED" in row["by_error"]
