"""Effects whose claim is lost, or whose handler is stopped, between the outside world and the mark."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Absent
from penstock.contract.errors import LeaseLost
from penstock.store import claims as store
from penstock.store import jobs

if TYPE_CHECKING:
    from tests.engine.worker.conftest import Floor

# Somebody waits for this session. In a transaction pg_stat_activity would answer as it did at the first look.
WAITING = "exists (select from pg_locks l where not l.granted and pg_backend_pid() = any(pg_blocking_pids(l.pid)))"


@pytest.mark.contract("C-61", "C-31")
async def test_a_zombie_cannot_mark_what_its_heir_is_performing(floor: Floor) -> None:
    """Fault 13: the late reply comes while the new claim waits for its own."""
    performing: asyncio.Queue[int] = asyncio.Queue()
    replies = {1: asyncio.Event(), 2: asyncio.Event()}
    lost: asyncio.Queue[int] = asyncio.Queue()

    async def settle(token: str) -> Absent:
        return Absent()

    @floor.app.job("mail", lease=timedelta(minutes=5))
    async def mail(job: Any, args: Any) -> None:
        async def perform(token: str) -> str:
            performing.put_nowait(job.claim_seq)
            await replies[job.claim_seq].wait()
            return f"reply to claim {job.claim_seq}"

        try:
            await job.effect("send", perform=perform, settle=settle)
        except LeaseLost:
            lost.put_nowait(job.claim_seq)
            raise

    job_id = await floor.app.enqueue("mail")
    async with floor.working(name="zombie") as zombie, asyncio.timeout(15):
        assert await performing.get() == 1
        zombie.fetcher.stopping = True  # or it might be its own heir
        await floor.pass_time(minutes=6)
        await store.reap(floor.owner)
        async with floor.working(name="heir") as heir:
            assert await performing.get() == 2
            replies[1].set()
            assert await lost.get() == 1
            replies[2].set()
            await heir.settle()
        await zombie.settle()
    assert (await floor.job(job_id))["status"] == "completed"
    assert await floor.owner.fetchval("select result::text from penstock.effects") == '"reply to claim 2"'


@pytest.mark.contract("C-61", "C-06")
async def test_a_mark_under_way_is_finished_although_its_job_is_canceled(floor: Floor) -> None:
    """The message is out; whoever asks the ledger later must learn that."""
    performing, reply, stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @floor.app.job("mail")
    async def mail(job: Any, args: Any) -> None:
        async def perform(token: str) -> None:
            performing.set()
            await reply.wait()

        try:
            await job.effect("send", perform=perform)
        finally:
            stopped.set()

    job_id = await floor.app.enqueue("mail")
    async with floor.working() as worker, asyncio.timeout(15):
        await performing.wait()
        async with floor.owner.transaction():
            await floor.owner.execute("select from penstock.effects for update")
            reply.set()
            await floor.until(WAITING)
            await jobs.cancel(floor.app.pool, job_id, who="test", why=None)
            for _ in range(30):  # the mark goes on waiting although the word of the cancel has come
                assert await floor.owner.fetchval(f"select {WAITING}")
                await floor.owner.execute("select pg_sleep(0.01)")
            assert all(running.stop for running in worker.place.held.values())
        await stopped.wait()
        await worker.settle()
    assert (await floor.job(job_id))["status"] == "canceled"
    assert await floor.owner.fetchval("select state from penstock.effects") == "done"
