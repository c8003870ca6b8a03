"""Leases: renewed while a handler lives, returned when its worker does not."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from penstock import Failed, FailureClass, Job, Schedule
from penstock.contract.claims import Claim
from penstock.engine.running import Running
from penstock.store import claims as store
from tests.engine.worker.conftest import Floor
from tests.support.suspects import take_suspect

LEASE = timedelta(seconds=60)


async def nothing(job: Any, args: Any) -> None:
    """Done."""


async def take_one(floor: Floor, job_type: str, worker: str = "gone") -> Claim:
    [claim] = await store.take(
        floor.app.pool, [job_type], [LEASE], [store.START], limit=1, worker=worker, run=uuid4()
    ) or await take_suspect(floor.app.pool, [job_type], worker=worker, lease=LEASE)
    return claim


@pytest.mark.contract("Q-65", "Q-66", "C-20", "D-77")
async def test_an_expired_claim_goes_back_and_one_that_is_a_second_younger_stays(floor: Floor) -> None:
    floor.app.job("echo")(nothing)
    await floor.app.sync_types()
    old = await floor.app.enqueue("echo", {"n": 1})
    young = await floor.app.enqueue("echo", {"n": 2})
    await take_one(floor, "echo")
    await floor.pass_time(seconds=30)
    await take_one(floor, "echo")
    await floor.pass_time(seconds=31)  # 61 s and 31 s old

    assert [row["job_id"] for row in await store.reap(floor.app.pool)] == [old]

    row = await floor.job(old)
    assert (row["status"], row["attempt_count"]) == ("queued", 1)
    assert row["last_error_message"] == "stale_claim_requeued"
    assert row["last_error_code"] == "LEASE_EXPIRED"
    assert (row["claimed_by"], row["claimed_at"], row["lease_expires_at"]) == (None, None, None)
    assert (row["suspect"], row["ready"], row["run_at"]) == (True, False, row["updated_at"])  # at once, but alone
    assert (await floor.job(young))["status"] == "processing"


@pytest.mark.contract("C-13", "D-49")
async def test_a_type_may_return_expired_claims_without_using_an_attempt(floor: Floor) -> None:
    floor.app.job("enrich", stale_counts_attempt=False, attempts=4)(nothing)
    await floor.app.sync_types()
    job_id = await floor.app.enqueue("enrich")
    await take_one(floor, "enrich")
    await floor.pass_time(seconds=61)
    await store.reap(floor.app.pool)
    row = await floor.job(job_id)
    assert (row["status"], row["attempt_count"], row["reclaim_count"]) == ("queued", 0, 1)
    assert (row["claimed_by"], row["lease_expires_at"]) == (None, None)


@pytest.mark.contract("C-13")
async def test_the_sixth_expiry_of_such_a_type_ends_the_job_as_lease_expired(floor: Floor) -> None:
    floor.app.job("enrich", stale_counts_attempt=False, max_reclaims=5)(nothing)
    await floor.app.sync_types()
    job_id = await floor.app.enqueue("enrich")
    for expiry in range(1, 7):
        await take_one(floor, "enrich")
        await floor.pass_time(seconds=61)
        await store.reap(floor.app.pool)
        assert (await floor.job(job_id))["status"] == ("queued" if expiry < 6 else "failed")
    letter = await floor.owner.fetchrow("select * from penstock.dead_letters where job_id = $1", job_id)
    assert letter is not None
    assert (letter["error_class"], letter["reason"]) == ("LEASE_EXPIRED", "budget_exhausted")


@pytest.mark.contract("C-13", "Q-69")
async def test_an_expiry_that_spends_the_last_attempt_fails_the_job(floor: Floor) -> None:
    floor.app.job("echo", attempts=2)(nothing)
    await floor.app.sync_types()
    job_id = await floor.app.enqueue("echo")
    for _ in range(2):
        await take_one(floor, "echo")
        await floor.pass_time(seconds=61)
        await store.reap(floor.app.pool)
    row = await floor.job(job_id)
    assert (row["status"], row["attempt_count"]) == ("failed", 2)
    assert row["last_error_message"] == "stale_claim_requeued"


@pytest.mark.contract("Q-15", "C-31")
async def test_the_reaper_never_touches_a_job_that_ended_while_it_looked(floor: Floor) -> None:
    """Rule 1 of the fault list: a reaper that writes by id alone resurrects completed jobs."""
    floor.app.job("echo")(nothing)
    await floor.app.sync_types()
    job_id = await floor.app.enqueue("echo")
    claim = await take_one(floor, "echo", worker="w1")
    await floor.pass_time(seconds=61)
    async with floor.owner.transaction():
        assert await store.complete(floor.owner, "w1", [claim]) == []
        assert await store.reap(floor.app.pool) == []  # the row is locked: passed over, not waited for
    assert await store.reap(floor.app.pool) == []
    assert (await floor.job(job_id))["status"] == "completed"


@pytest.mark.contract("D-48", "C-31")
async def test_a_renewal_moves_the_lease_of_the_owner_and_of_nobody_else(floor: Floor) -> None:
    floor.app.job("echo")(nothing)
    await floor.app.sync_types()
    job_id = await floor.app.enqueue("echo")
    claim = await take_one(floor, "echo", worker="w1")
    await floor.pass_time(seconds=30)
    before = (await floor.job(job_id))["lease_expires_at"]

    held = [(claim.job_id, claim.claim_seq, LEASE)]
    assert await store.renew(floor.app.pool, "w2", held) == {}
    assert (await floor.job(job_id))["lease_expires_at"] == before
    assert await store.renew(floor.app.pool, "w1", held) == {job_id: True}
    assert (await floor.job(job_id))["lease_expires_at"] >= before + timedelta(seconds=30)


async def test_a_job_that_blocks_the_event_loop_for_five_leases_keeps_its_claim(floor: Floor) -> None:
    ran: list[int] = []

    @floor.app.job("stubborn", lease=timedelta(seconds=0.6))
    async def stubborn(job: Any, args: Any) -> None:
        ran.append(job.claim_seq)
        threading.Event().wait(3.0)  # blocks the loop; the heartbeat has a thread of its own

    job_id = await floor.app.enqueue("stubborn")
    async with floor.working(name="w1") as worker:
        await floor.until("status = 'completed' from penstock.jobs where job_id = $1", job_id)
        await worker.settle()
    row = await floor.job(job_id)
    assert ran == [1]
    assert (row["claim_seq"], row["reclaim_count"]) == (1, 0)


async def test_a_handler_whose_lease_was_lost_is_cancelled_and_its_result_dropped(floor: Floor) -> None:
    cancelled = asyncio.Event()
    entered = asyncio.Event()
    claims: list[int] = []

    @floor.app.job("slow", lease=timedelta(seconds=1))
    async def slow(job: Any, args: Any) -> None:
        claims.append(job.claim_seq)
        if len(claims) > 1:
            return
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    job_id = await floor.app.enqueue("slow")
    async with floor.working(name="w1") as worker:
        await entered.wait()
        # Another worker takes the job over, as if this one had been frozen for longer than its lease.
        await floor.owner.execute(
            "update penstock.jobs set status = 'queued', lease_expires_at = null, claimed_by = null, "
            "claimed_at = null, run_at = penstock.now(), ready = true where job_id = $1",
            job_id,
        )
        async with asyncio.timeout(5):
            await cancelled.wait()
        await floor.app.enqueue("slow", {"poke": True})
        await floor.until("status = 'completed' from penstock.jobs where job_id = $1", job_id)
        await worker.settle()
    assert claims[:2] == [1, 2] or claims[:3].count(2) == 1
    assert (await floor.job(job_id))["claim_seq"] == 2


@pytest.mark.contract("C-31")
async def test_news_of_a_lost_claim_leaves_a_later_claim_of_the_same_job_alone(floor: Floor) -> None:
    """The heartbeat asked about a claim that ended meanwhile; this very worker has taken the job again."""
    entered, release = asyncio.Event(), asyncio.Event()

    @floor.app.job("echo", backoff=Schedule([0]))
    async def echo(job: Job, args: Any) -> None:
        if job.attempt == 1:
            raise Failed(FailureClass.NETWORK_RESET)
        entered.set()
        await release.wait()

    job_id = await floor.app.enqueue("echo", {"n": 1})
    async with floor.working() as worker:
        await entered.wait()
        [now] = worker.place.held.values()
        earlier = Running(now.claim, now.job_type, now.run, now.renewed)
        worker.slots.lose([earlier])
        release.set()
        await floor.until("status = 'completed' from penstock.jobs where job_id = $1", job_id)
    assert (await floor.job(job_id))["attempt_count"] == 1


@pytest.mark.contract("C-63")
async def test_a_handler_past_its_time_limit_is_cancelled_and_counts_an_attempt(floor: Floor) -> None:
    @floor.app.job("hangs", timeout=timedelta(milliseconds=100), attempts=1)
    async def hangs(job: Any, args: Any) -> None:
        await asyncio.Event().wait()

    job_id = await floor.app.enqueue("hangs")
    async with floor.working() as worker:
        await floor.until("status = 'failed' from penstock.jobs where job_id = $1", job_id)
        await worker.settle()
    row = await floor.job(job_id)
    assert (row["last_error_code"], row["attempt_count"]) == ("HANDLER_TIMEOUT", 1)


@pytest.mark.contract("C-63")
async def test_a_handler_in_a_thread_past_its_limit_is_fenced_out_and_the_process_recycles(floor: Floor) -> None:
    release = threading.Event()

    @floor.app.job("stuck", timeout=timedelta(milliseconds=100), attempts=1)
    def stuck(job: Any, args: Any) -> None:
        release.wait(20)

    job_id = await floor.app.enqueue("stuck")
    worker = floor.app.worker(dsn=floor.dsn, insecure=True)
    task = asyncio.create_task(worker.run())
    await floor.until("status = 'failed' from penstock.jobs where job_id = $1", job_id)
    await floor.app.enqueue("stuck", run_at=None, delay=3600)
    await floor.owner.execute("select pg_notify('penstock_jobs', '')")
    async with asyncio.timeout(10):
        await task
    release.set()
    assert worker.recycle
    assert (await floor.job(job_id))["last_error_code"] == "HANDLER_TIMEOUT"


@pytest.mark.contract("C-29", "D-20", "D-14")
async def test_a_worker_wakes_for_the_next_lease_that_expires(floor: Floor) -> None:
    """The poll is half a minute away; the dead worker's job runs again as soon as its lease is over."""
    done = asyncio.Event()

    @floor.app.job("echo", lease=timedelta(seconds=1))
    async def echo(job: Any, args: Any) -> None:
        done.set()

    await floor.app.sync_types()
    await floor.app.enqueue("echo")
    [claim] = await store.take(
        floor.app.pool, ["echo"], [timedelta(seconds=1)], [store.START], limit=1, worker="dead", run=uuid4()
    )
    taken = time.monotonic()
    async with floor.working() as worker, asyncio.timeout(10):
        await done.wait()
        assert time.monotonic() - taken < 1 + 2
        await worker.settle()
    assert (await floor.job(claim.job_id))["attempt_count"] == 1


@pytest.mark.contract("C-29")
async def test_a_worker_wakes_for_the_next_job_that_falls_due(floor: Floor) -> None:
    done = asyncio.Event()

    @floor.app.job("echo")
    async def echo(job: Any, args: Any) -> None:
        done.set()

    async with floor.working() as worker, asyncio.timeout(10):
        await floor.app.enqueue("echo", delay=0.3)
        await done.wait()
        await worker.settle()


@pytest.mark.contract("Q-03")
async def test_a_worker_whose_recorder_dies_stops_and_says_so(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that nobody records must not go on; the leases bring the jobs back."""

    async def broken(*_: Any) -> None:
        raise RuntimeError("no disk, no ink")

    floor.app.job("echo")(nothing)
    worker = floor.app.worker(dsn=floor.dsn, insecure=True)
    task = asyncio.create_task(worker.run())
    await worker.ready.wait()
    monkeypatch.setattr(worker.recorder, "_write_completed", broken)
    job_id = await floor.app.enqueue("echo")
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError):
            await task
    assert (await floor.job(job_id))["status"] == "processing"


@pytest.mark.contract("C-54")
async def test_workers_that_start_at_the_same_moment_get_different_names(floor: Floor) -> None:
    floor.app.job("echo")(nothing)
    await floor.app.sync_types()
    workers = [floor.app.worker(dsn=floor.dsn, insecure=True) for _ in range(4)]
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    await asyncio.gather(*(worker.ready.wait() for worker in workers))
    names = {worker.worker_id for worker in workers}
    for worker in workers:
        worker.stop()
    await asyncio.gather(*tasks)
    assert len(names) == 4
    assert {name.rpartition("-")[2] for name in names} == {"1", "2", "3", "4"}
