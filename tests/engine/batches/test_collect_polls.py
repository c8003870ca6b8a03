"""Asking after batches that are slow, missing, stuck or unwanted (scenarios 9 and 10)."""

from __future__ import annotations

import json

import pytest

from penstock import Failed, FailureClass
from penstock.providers.port import Phase
from tests.engine.batches.conftest import MakeLane
from tests.engine.batches.returning import Home, all_answers, make_home, store


@pytest.fixture
async def home(make_lane: MakeLane) -> Home:
    made = await make_home(make_lane, lane={"persist": store})
    made.provider.phase = Phase.RUNNING
    return made


async def poll_after(home: Home, **span: float) -> None:
    await home.pass_time(**span)
    await home.collected()


@pytest.mark.contract("C-05")
async def test_a_batch_that_is_not_found_for_a_while_is_waited_for(home: Home) -> None:
    ids = await home.sent(2)
    home.provider.poll_raises = Failed(FailureClass.NOT_FOUND, upstream_status=404)
    await home.collected()
    await poll_after(home, minutes=2)
    assert (await home.statuses(), await home.alert_kinds()) == ({"batch_submitted": 2}, [])

    home.provider.poll_raises, home.provider.phase = None, Phase.COMPLETED
    await poll_after(home, minutes=5)

    assert await home.outputs() == {job_id: f"re: letter {n}" for n, job_id in enumerate(ids)}
    assert (await home.batch())["missing_since"] is None


@pytest.mark.contract("C-05", "C-37")
async def test_a_batch_that_has_vanished_is_told_of_at_once_and_given_up_at_its_deadline(home: Home) -> None:
    ids = await home.sent(2)
    home.provider.poll_raises = Failed(FailureClass.NOT_FOUND, upstream_status=404)
    await home.collected()
    await poll_after(home, minutes=20)
    assert (await home.statuses(), await home.alert_kinds()) == ({"batch_submitted": 2}, ["batch_missing"])
    await poll_after(home, hours=20)
    assert await home.statuses() == {"batch_submitted": 2}

    await poll_after(home, hours=5)

    assert await home.codes(ids) == [("queued", "BATCH_EXPIRED")] * 2
    assert await home.alert_kinds() == ["batch_missing", "batch_deadline_passed"]
    assert (await home.batch())["state"] == "collected"


@pytest.mark.parametrize("code", ["AUTH_DENIED", "QUOTA_EXHAUSTED", "UPSTREAM_5XX"])
async def test_a_provider_that_cannot_be_asked_looks_like_a_failure_and_never_like_loss(home: Home, code: str) -> None:
    ids = await home.sent(2)
    home.provider.poll_raises = Failed(FailureClass(code))

    for _ in range(6):
        await poll_after(home, hours=12)

    assert await home.statuses() == {"batch_submitted": 2}
    row = await home.batch()
    assert (row["state"], row["last_error_code"], row["missing_since"]) == ("submitted", code, None)
    (alert,) = await home.alerts("batch_poll_failed")
    assert json.loads(alert["subject"])["code"] == code

    home.provider.poll_raises, home.provider.phase = None, Phase.COMPLETED
    await poll_after(home, hours=1)
    assert set(await home.outputs()) == set(ids)


async def test_an_adapter_that_is_not_there_any_more_changes_nothing(home: Home) -> None:
    await home.sent(1)
    home.app.use_adapters({})

    dispatched = await home.app.run_function("letters_batch_collector", insecure=True)

    assert dispatched.run is not None
    assert dispatched.run.by_error == {"CONFIG_INVALID": 1}
    assert await home.statuses() == {"batch_submitted": 1}
    assert await home.alert_kinds() == ["batch_poll_failed"]


@pytest.mark.contract("C-05", "C-37")
async def test_a_batch_past_its_deadline_is_canceled_and_what_is_there_of_it_is_collected(home: Home) -> None:
    ids = await home.sent(3)
    home.provider.lines = lambda batch: all_answers(batch)[:2]
    await poll_after(home, hours=24)
    assert home.provider.count("cancel") == 0

    await poll_after(home, hours=2)
    assert home.provider.count("cancel") == 1
    assert await home.alert_kinds() == ["batch_deadline_passed"]
    await poll_after(home, minutes=2)

    assert await home.codes(ids) == [("completed", None), ("completed", None), ("queued", "BATCH_EXPIRED")]


@pytest.mark.contract("C-05")
async def test_a_batch_that_does_not_even_end_when_canceled_is_given_up_after_a_grace(home: Home) -> None:
    ids = await home.sent(2)
    home.provider.cancel_ends = False
    await poll_after(home, hours=48)  # nobody looked for a day: its grace begins when it is canceled
    await poll_after(home, minutes=50)
    assert await home.statuses() == {"batch_submitted": 2}
    await poll_after(home, minutes=15)

    assert await home.codes(ids) == [("queued", "BATCH_EXPIRED")] * 2
    assert len(await home.alerts("batch_deadline_passed")) == 1


@pytest.mark.contract("C-35")
async def test_a_result_of_a_superseded_submission_is_dropped_and_costs_nothing_but_money(home: Home) -> None:
    """Scenario 10: the stuck batch ends after all, when its item has been submitted again."""
    (job_id,) = await home.sent(1)
    await home.owner.execute("update penstock.jobs set status = 'queued', ready = true, run_at = penstock.now()")
    await home.submitted()
    home.provider.phase = Phase.COMPLETED
    home.provider.lines = lambda batch: [
        line for line in all_answers(batch) if batch.provider_batch_id == "pb_1" or line.custom_id.endswith("-2")
    ]

    run = await home.collected()

    assert await home.states() == ["late", "completed"]
    assert await home.outputs() == {job_id: "re: letter 0"}
    assert (run.succeeded, run.lost) == (1, 1)
    assert (await home.job(job_id))["provider_batch_id"] == "pb_1"
    assert await home.owner.fetchval("select sum(input_tokens) from penstock.spend") == 2000


async def test_a_result_for_a_canceled_job_is_late(home: Home) -> None:
    gone, stays = await home.sent(2)
    await home.owner.execute("select penstock.cancel($1, 'somebody', 'not needed')", gone)
    home.provider.phase = Phase.COMPLETED

    await home.collected()

    assert await home.states() == ["late", "completed"]
    assert (await home.job(gone))["status"] == "canceled"
    assert await home.outputs() == {stays: "re: letter 1"}


async def test_a_batch_that_an_operator_cancels_gives_what_it_has_and_the_rest_tries_again(home: Home) -> None:
    ids = await home.sent(2)
    home.provider.lines = lambda batch: all_answers(batch)[:1]
    await home.owner.execute("update penstock.batches set cancel_asked_at = penstock.now(), next_poll_at = null")

    await home.collected()
    assert home.provider.count("cancel") == 1
    await poll_after(home, minutes=2)

    assert await home.codes(ids) == [("completed", None), ("queued", "BATCH_EXPIRED")]
    assert await home.alert_kinds() == ["batch_ended_early"]


async def test_a_batch_whose_results_nobody_can_read_ends_an_hour_after_an_operator_cancels_it(home: Home) -> None:
    ids = await home.sent(2)
    home.provider.download_raises = Failed(FailureClass.NETWORK_RESET)
    await poll_after(home, hours=30)
    assert await home.statuses() == {"batch_submitted": 2}  # its results may yet be had
    await home.owner.execute("update penstock.batches set cancel_asked_at = penstock.now(), next_poll_at = null")
    await poll_after(home, minutes=30)
    assert await home.statuses() == {"batch_submitted": 2}

    await poll_after(home, minutes=31)

    assert await home.codes(ids) == [("queued", "BATCH_EXPIRED")] * 2


async def test_an_alert_that_nobody_has_seen_is_not_raised_again(home: Home) -> None:
    await home.sent(1)
    home.provider.poll_raises = Failed(FailureClass.AUTH_DENIED)
    for _ in range(3):
        await poll_after(home, minutes=20)
    assert len(await home.alerts("batch_poll_failed")) == 1

    await home.owner.execute("update penstock.alerts set acknowledged_at = penstock.now(), acknowledged_by = 'me'")
    await poll_after(home, minutes=20)
    assert len(await home.alerts("batch_poll_failed")) == 2
