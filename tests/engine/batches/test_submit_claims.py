"""Parked claims are still claims: renewed, cancelled, lost, given back, and nobody else's."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from penstock.contract.claims import Caps, Trigger
from penstock.engine.batches.submitter import Submitter
from penstock.engine.bounded import TimedRun
from penstock.providers.port import BatchLimits, Submission
from penstock.store import claims, submissions
from tests.engine.batches.conftest import SUBMITTER, TYPE, Lane, MakeLane
from tests.support.fake_provider import FakeAdapter


def submitter(lane: Lane) -> Submitter:
    """A submitter's run that a test can stop."""
    run = TimedRun(SUBMITTER, Trigger.SCHEDULE, Caps(100, timedelta(minutes=4)))
    types = [lane.app.types.get(TYPE)]
    adapters = lane.app.functions.adapters
    return Submitter(
        lane.dsn, types, lane.app.settings, run, overflow=timedelta(seconds=60), adapters=adapters, insecure=True
    )


@pytest.mark.contract("C-36")
async def test_two_submitters_at_once_never_put_one_job_into_two_batches(make_lane: MakeLane) -> None:
    lane = await make_lane(limits=BatchLimits(items=7, body_bytes=100_000, window=timedelta(hours=24)))
    ids = await lane.fill(60)

    await asyncio.gather(lane.submit(), lane.submit(), lane.submit())

    items = await lane.items()
    assert sorted(item["job_id"] for item in items) == sorted(ids)
    sent = [request["custom_id"] for batch in lane.provider.batches for request in batch.requests()]
    assert sorted(sent) == sorted(item["custom_id"] for item in items)
    assert await lane.statuses() == {"batch_submitted": 60}


async def test_a_job_that_is_canceled_while_it_is_parked_is_left_out(make_lane: MakeLane) -> None:
    lane = await make_lane(limits=BatchLimits(items=1, body_bytes=100_000, window=timedelta(hours=24)))
    first, second, third = await lane.fill(3)

    async def cancel(_: Submission) -> None:
        if lane.provider.count("upload") == 1:
            await lane.owner.execute("select penstock.cancel($1, 'tester', null)", second)

    lane.provider.before_upload = cancel
    await lane.submitted()

    statuses = [(await lane.job(job_id))["status"] for job_id in (first, second, third)]
    assert statuses == ["batch_submitted", "canceled", "batch_submitted"]
    assert len(lane.provider.batches) == 2
    assert {item["job_id"] for item in await lane.items()} == {first, third}


async def test_a_job_that_is_canceled_before_the_intent_leaves_no_gap(lane: Lane) -> None:
    first, second, third = await lane.fill(3)
    crew = submitter(lane)
    crew._on_control = lambda *_: None  # type: ignore[method-assign]  # the word of it gets lost
    await crew.open()
    await crew._take_all()
    await lane.owner.execute("select penstock.cancel($1, 'tester', null)", second)
    await crew._submit_parked()
    await crew.close()

    items = await lane.items()
    assert [(item["batch_item_index"], item["job_id"]) for item in items] == [(0, first), (1, third)]
    assert (await lane.job(second))["status"] == "canceled"
    assert [len(batch.lines) for batch in lane.provider.batches] == [2]


async def test_a_parked_job_that_was_stopped_is_not_even_offered(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = await lane.fill(2)
    offered: list[int] = []
    intend = submissions.intend

    async def count(db: Any, worker: str, draft: submissions.Draft) -> submissions.Intended:
        offered.append(len(draft.items))
        return await intend(db, worker, draft)

    monkeypatch.setattr(submissions, "intend", count)
    crew = submitter(lane)
    await crew.open()
    await crew._take_all()
    await lane.owner.execute("select penstock.cancel($1, 'tester', null)", first)
    async with asyncio.timeout(10):
        while crew.place.held[first].stop is None:  # noqa: ASYNC110 - the word comes by the listener
            await asyncio.sleep(0.01)
    await crew._submit_parked()
    await crew.settle()
    await crew.close()

    assert offered == [1]
    assert (await lane.job(second))["status"] == "batch_submitted"


async def test_a_job_that_is_canceled_on_its_way_stays_canceled(lane: Lane) -> None:
    first, second = await lane.fill(2)

    async def cancel(_: Submission) -> None:
        await lane.owner.execute("select penstock.cancel($1, 'tester', null)", first)

    lane.provider.before_create = cancel
    await lane.submitted()

    assert (await lane.job(first))["status"] == "canceled"
    assert (await lane.job(second))["status"] == "batch_submitted"
    assert {row["state"] for row in await lane.effects()} == {"done"}


async def test_parked_claims_keep_their_leases_while_an_upload_takes_long(make_lane: MakeLane) -> None:
    lane = await make_lane(lease=timedelta(seconds=1), max_runtime=timedelta(seconds=0.9))
    (job_id,) = await lane.fill(1)
    leases: list[object] = []

    async def take_long(_: Submission) -> None:
        first = (await lane.job(job_id))["lease_expires_at"]
        async with asyncio.timeout(10):
            while (await lane.job(job_id))["lease_expires_at"] <= first:  # noqa: ASYNC110 - the heartbeat is a thread
                await asyncio.sleep(0.02)
        leases.append(first)

    lane.provider.before_upload = take_long
    await lane.submitted()

    assert len(leases) == 1
    assert (await lane.job(job_id))["status"] == "batch_submitted"


@pytest.mark.contract("C-31")
async def test_a_claim_that_was_lost_while_it_was_parked_is_not_submitted(lane: Lane) -> None:
    first, second = await lane.fill(2)
    crew = submitter(lane)
    await crew.open()
    await crew._take_all()
    await lane.owner.execute(
        "update penstock.jobs set claim_seq = claim_seq + 1, claimed_by = 'another' where job_id = $1", first
    )
    await crew._submit_parked()
    await crew.settle()
    await crew.close()

    assert [item["job_id"] for item in await lane.items()] == [second]
    assert ((await lane.job(first))["status"], (await lane.job(first))["claimed_by"]) == ("processing", "another")


async def test_a_shutdown_gives_parked_jobs_back_at_once_and_uncharged(make_lane: MakeLane) -> None:
    lane = await make_lane(limits=BatchLimits(items=1, body_bytes=100_000, window=timedelta(hours=24)))
    await lane.fill(3)
    crew = submitter(lane)

    async def stop(_: Submission) -> None:
        crew.stop(grace=30)

    lane.provider.before_upload = stop
    await crew.open()
    await crew.work()
    await crew.close()

    rows = await lane.jobs()
    assert [row["status"] for row in rows] == ["batch_submitted", "queued", "queued"]  # the one on its way got through
    assert {(row["attempt_count"], row["ready"]) for row in rows[1:]} == {(0, True)}


@pytest.mark.parametrize("step", ["upload", "create"])
async def test_a_shutdown_that_cannot_wait_leaves_nothing_undecided_but_a_create(lane: Lane, step: str) -> None:
    (job_id,) = await lane.fill(1)
    crew = submitter(lane)

    async def hang(_: Submission) -> None:
        crew.stop(grace=0)
        await asyncio.Event().wait()

    if step == "upload":
        lane.provider.before_upload = hang
    else:
        lane.provider.before_create = hang
    await crew.open()
    await crew.work()
    await crew.close()

    batch, job = await lane.batch(), await lane.job(job_id)
    if step == "upload":
        assert (batch["state"], job["status"], job["attempt_count"]) == ("abandoned", "queued", 0)
    else:
        assert (batch["state"], job["status"], job["attempt_count"]) == ("uncertain", "processing", 0)


async def test_what_is_parked_goes_back_when_the_run_dies_of_something_else(lane: Lane) -> None:
    await lane.fill(2)
    crew = submitter(lane)
    await crew.open()
    await crew._take_all()
    await crew.close()

    assert [(row["status"], row["attempt_count"]) for row in await lane.jobs()] == [("queued", 0)] * 2


async def test_what_was_not_sent_yet_goes_back_when_the_run_breaks_off(lane: Lane) -> None:
    def break_down(_url: str | None) -> FakeAdapter:
        raise ZeroDivisionError

    lane.app.use_adapters({"fake": lambda _url: FakeAdapter(lane.provider), "broken": break_down})
    await lane.fill(1)
    await lane.fill(2, adapter="broken")
    await lane.fill(1, model="large")

    assert (await lane.submit()).error == "RUNTIME_BUG"

    rows = [(row["status"], row["attempt_count"]) for row in await lane.jobs()]
    assert rows == [("batch_submitted", 0), ("queued", 0), ("queued", 0), ("queued", 0)]


@pytest.mark.contract("C-36")
async def test_jobs_of_an_open_intent_are_no_orphans_of_a_name(lane: Lane) -> None:
    """A run that takes a dead submitter's name may give back claims it does not hold, but not these."""
    (job_id,) = await lane.fill(1)
    lane.provider.refuse_create.append(TimeoutError())
    await lane.submitted()
    row = await lane.job(job_id)

    released = await claims.release_orphans(lane.owner, row["claimed_by"], [], younger=timedelta(hours=1))

    assert released == 0
    assert (await lane.job(job_id))["status"] == "processing"
