"""Stopping: what is canceled is not run, what is not started is given back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.engine.worker import Worker
from tests.engine.worker.conftest import Floor


@pytest.mark.contract("D-52", "C-06")
async def test_a_job_canceled_while_it_waits_for_a_slot_is_not_run(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.slots.RECHECK", 0.0)
    monkeypatch.setattr(Worker, "_on_control", lambda *_: None)  # the word of the cancel does not get through
    release, entered = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    @floor.app.job("one")
    async def one(job: Any, args: dict[str, int]) -> None:
        ran.append(args["n"])
        entered.set()
        await release.wait()

    async with floor.working(concurrency=1) as worker:
        worker.slots._ahead = 10  # claimed ahead of the one slot
        first = await floor.app.enqueue("one", {"n": 1})
        await entered.wait()
        second = await floor.app.enqueue("one", {"n": 2})
        await floor.until("status = 'processing' from penstock.jobs where job_id = $1", second)
        await floor.owner.execute("select penstock.cancel($1, 'test', null)", second)
        release.set()
        await floor.until("status = 'completed' from penstock.jobs where job_id = $1", first)
        await worker.settle()
    assert ran == [1]
    assert (await floor.job(second))["status"] == "canceled"


@pytest.mark.contract("C-06", "A-12")
async def test_canceling_a_running_job_stops_its_handler_and_drops_its_result(floor: Floor) -> None:
    entered, stopped = asyncio.Event(), asyncio.Event()

    @floor.app.job("slow")
    async def slow(job: Any, args: Any) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    job_id = await floor.app.enqueue("slow")
    async with floor.working() as worker, asyncio.timeout(10):
        await entered.wait()
        await floor.owner.execute("select penstock.cancel($1, 'test', null)", job_id)
        await stopped.wait()
        await worker.settle()
    assert (await floor.job(job_id))["status"] == "canceled"


@pytest.mark.contract("C-25")
async def test_work_not_started_is_given_back_at_once_when_the_worker_stops(floor: Floor) -> None:
    release, entered = asyncio.Event(), asyncio.Event()

    @floor.app.job("one")
    async def one(job: Any, args: Any) -> None:
        entered.set()
        await release.wait()

    async with floor.working(concurrency=1) as worker:
        worker.slots._ahead = 10
        await floor.app.enqueue_many("one", [{"n": n} for n in range(5)])
        await floor.owner.execute("select pg_notify('penstock_jobs', '')")
        await entered.wait()
        await floor.until("count(*) = 5 from penstock.jobs where status = 'processing'")
        worker.stop()
        await floor.until("count(*) = 4 from penstock.jobs where status = 'queued' and attempt_count = 0")
        release.set()
    assert await floor.counts() == {"completed": 1, "queued": 4}


@pytest.mark.contract("C-25")
async def test_a_worker_without_a_free_slot_stops_within_its_grace(floor: Floor) -> None:
    """It waits for room just then, with more jobs in the queue; no handler ends by itself."""

    @floor.app.job("endless")
    async def endless(args: Any) -> None:
        await asyncio.Event().wait()

    async with floor.working(concurrency=2) as worker:
        jobs = await floor.app.enqueue_many("endless", [{"n": n} for n in range(10)])
        await floor.until("count(*) = 2 from penstock.jobs where status = 'processing'")
        worker._settings = worker._settings.model_copy(update={"grace_seconds": 0.1})
        worker.stop()
        async with asyncio.timeout(10):
            await worker._stopped.wait()
    assert await floor.counts() == {"queued": len(jobs)}
