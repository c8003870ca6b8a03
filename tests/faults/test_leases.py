"""Leases under a blocked loop, a slow database, an exhausted pool, a frozen process and a jumping clock."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest

from penstock import Penstock
from penstock.engine import heartbeat
from penstock.store import claims as store
from penstock.store import jobs
from tests.crash import campaign, handlers, history

if TYPE_CHECKING:
    import asyncpg

    from tests.engine.worker.conftest import Floor
    from tests.support.proxy import Proxy

LEASE = timedelta(seconds=0.9)


async def reap_for(owner: asyncpg.Connection[Any], seconds: float) -> int:
    """Be a reaper that never rests; returns how many claims it took away."""
    taken, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        taken += len(await store.reap(owner))
        await owner.execute("select pg_sleep(0.05)")
    return taken


@pytest.mark.contract("D-87", "C-20")
async def test_a_handler_that_blocks_the_event_loop_keeps_its_claim_from_every_reaper(floor: Floor) -> None:
    """Fault 44. The reaper works inside the blocking handler, since nothing else of this process can."""
    taken: list[Any] = []

    @floor.app.job("stubborn", lease=LEASE)
    async def stubborn(job: Any, args: Any) -> None:
        end = time.monotonic() + 3 * LEASE.total_seconds()
        with psycopg.connect(floor.dsn, autocommit=True) as reaper:
            while time.monotonic() < end:
                taken.extend(reaper.execute("select * from penstock.reap(100), pg_sleep(0.05)").fetchall())

    job_id = await floor.app.enqueue("stubborn")
    async with floor.working() as worker:
        await floor.until("status = 'completed' from penstock.jobs where job_id = $1", job_id)
        await worker.settle()
    assert taken == []
    assert (await floor.job(job_id))["claim_seq"] == 1


@pytest.mark.contract("C-31", "C-20")
async def test_a_job_that_another_worker_has_taken_over_stops_here_and_its_result_is_dropped(floor: Floor) -> None:
    """Fault 12: only the heartbeat can tell."""
    entered, stopped = asyncio.Event(), asyncio.Event()

    @floor.app.job("slow", lease=LEASE)
    async def slow(job: Any, args: Any) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    job_id = await floor.app.enqueue("slow")
    async with floor.working() as worker, asyncio.timeout(10):
        await entered.wait()
        async with floor.owner.transaction():
            await floor.owner.execute(
                "update penstock.jobs set status = 'queued', ready = true, lease_expires_at = null where job_id = $1",
                job_id,
            )
            [other] = await store.take(
                floor.owner, ["slow"], [timedelta(hours=1)], [store.START], limit=1, worker="other", run=uuid4()
            )
        await stopped.wait()
        await worker.settle()
        assert (await floor.job(job_id))["claimed_by"] == "other"
        assert await store.complete(floor.owner, "other", [other]) == []


@pytest.mark.long
@pytest.mark.contract("C-20")
async def test_a_slow_database_costs_no_lease(floor: Floor, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 33 at a twentieth: every request takes a fifth of the heartbeat's patience longer, from the start."""
    monkeypatch.setattr(heartbeat, "SLOW", 0.5)
    release, entered = asyncio.Event(), asyncio.Event()

    @floor.app.job("long", lease=timedelta(seconds=2))
    async def long(job: Any, args: Any) -> None:
        entered.set()
        await release.wait()

    job_id = await floor.app.enqueue("long")
    floor.dsn, proxy.delay = proxy.dsn, 0.1
    async with floor.working() as worker:
        await entered.wait()
        assert await reap_for(floor.owner, 4) == 0
        release.set()
        await worker.settle()
        proxy.delay = 0.0
    row = await floor.job(job_id)
    assert (row["status"], row["claim_seq"]) == ("completed", 1)


@pytest.mark.contract("C-20", "D-38")
async def test_an_exhausted_pool_costs_neither_leases_nor_pokes(floor: Floor) -> None:
    """Fault 34: every connection of the pool is held; heartbeat and listener have their own."""
    entered, stopped = asyncio.Event(), asyncio.Event()

    @floor.app.job("long", lease=LEASE)
    async def long(job: Any, args: Any) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    job_id = await floor.app.enqueue("long")
    async with floor.working(pool_size=3) as worker, asyncio.timeout(15):
        await entered.wait()
        held = [await worker.place.pool.acquire() for _ in range(2)]  # the third is kept for claims
        assert await reap_for(floor.owner, 2 * LEASE.total_seconds()) == 0
        assert await jobs.cancel(floor.owner, job_id, who="test", why=None) == "canceled"
        await stopped.wait()  # the cancel was heard
        for connection in held:
            await worker.place.pool.release(connection)
        await worker.settle()


@pytest.mark.contract("C-22", "C-31")
async def test_a_clock_that_jumps_costs_time_and_nothing_else(floor: Floor) -> None:
    """Fault 16: an hour ahead in the middle of a job, then two hours back."""
    entered: asyncio.Queue[int] = asyncio.Queue()
    release = asyncio.Event()

    @floor.app.job("long", lease=timedelta(minutes=5))
    async def long(job: Any, args: Any) -> None:
        entered.put_nowait(job.claim_seq)
        if job.claim_seq == 1:
            await release.wait()

    job_id = await floor.app.enqueue("long")
    async with floor.working(name="one") as one, asyncio.timeout(15):
        assert await entered.get() == 1
        await floor.pass_time(hours=1)
        assert [row["outcome"] for row in await store.reap(floor.owner)] == ["queued"]
        await floor.pass_time(hours=-2)
        async with floor.working(name="two"):
            assert await entered.get() == 2
            await floor.until("status = 'completed' from penstock.jobs")  # either of them may have taken it up
            done = await floor.job(job_id)
            assert (done["status"], done["claim_seq"]) == ("completed", 2)
            release.set()
            await one.settle()
    assert await floor.job(job_id) == done


def freeze(pid: int) -> None:
    """Stop a process; returns when all of it stands still."""
    os.kill(pid, signal.SIGSTOP)
    while Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)


async def freeze_at_work(floor: Floor, pid: int) -> None:
    """Stop *pid* while it holds claims: also those of which it had sent the end already do not count."""
    nobody_works = (
        "not exists (select from pg_stat_activity where datname = current_database() and state = 'active'"
        " and coalesce(wait_event_type, '') not in ('Lock', 'Client') and pid <> pg_backend_pid())"
    )
    while True:
        await floor.until("count(*) > 20 from penstock.jobs where status = 'processing'")
        freeze(pid)
        await floor.until(nobody_works)
        if await floor.owner.fetchval("select exists (select from penstock.jobs where status = 'processing')"):
            return
        os.kill(pid, signal.SIGCONT)


@pytest.mark.contract("C-31", "C-61", "D-81")
async def test_a_worker_frozen_for_longer_than_its_leases_doubles_nothing(
    dsn: str, tmp_path: Path, floor: Floor
) -> None:
    """Fault 12 with a real process: SIGSTOP, another one takes over, SIGCONT."""
    world = tmp_path / "world"
    app = handlers.build(dsn, str(world))
    await floor.owner.execute("create table public.writes (job_id uuid primary key, claim_seq bigint not null)")
    async with app, campaign.Nursery() as nursery, asyncio.timeout(60):
        await app.sync_types()
        count = 0
        for job_type in ("plain", "mail", "write", "staged"):
            count += len(await app.enqueue_many(job_type, [{"n": n} for n in range(400)]))
        zombie = await nursery.spawn(dsn=dsn, world=str(world), name="zombie", concurrency=50)
        await freeze_at_work(floor, zombie)
        heir = await nursery.spawn(dsn=dsn, world=str(world), name="heir")
        await floor.until("not exists (select from penstock.jobs where finished_at is null)", seconds=30)
        os.kill(zombie, signal.SIGCONT)
        for pid in (zombie, heir):
            campaign.kill(pid, signal.SIGTERM)
            await nursery.exited(pid)
        assert await history.violations(floor.owner, handlers.World(world), count) == []
        assert await floor.owner.fetchval("select sum(reclaim_count) from penstock.jobs") > 0


@pytest.mark.contract("C-22")
@pytest.mark.parametrize("hours", [-1, 1])
async def test_the_clock_of_a_client_decides_nothing(dsn: str, wrong_clock: Any, floor: Floor, hours: int) -> None:
    """Fault 15: a worker and a caller whose clocks are an hour off."""
    wrong_clock(timedelta(hours=hours))
    done: asyncio.Queue[int] = asyncio.Queue()
    async with Penstock(dsn) as app:

        @app.job("echo")
        async def echo(job: Any, args: dict[str, int]) -> None:
            done.put_nowait(args["n"])

        worker = app.worker(dsn=dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        await app.enqueue("echo", {"n": 1})
        later = await app.enqueue("echo", {"n": 2}, delay=60)
        [also_later] = await app.enqueue_many("echo", [{"n": 3}], delay=60)
        async with asyncio.timeout(10):
            assert await done.get() == 1
        await worker.settle()
        for job_id in (later, also_later):
            waits = await floor.owner.fetchval(
                "select run_at - penstock.now() from penstock.jobs where job_id = $1", job_id
            )
            assert timedelta(seconds=30) < waits <= timedelta(seconds=60)
        worker.stop()
        await task
    assert done.empty()
