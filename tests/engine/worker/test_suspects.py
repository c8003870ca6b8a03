"""Suspects: each runs alone in its process, and the process still gets round to everything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from penstock import Snooze
from penstock.contract.policies import Limits
from penstock.engine.worker import Worker
from penstock.store import claims as store
from penstock.store import types as type_store
from tests.engine.worker.conftest import Floor
from tests.support.suspects import take_suspect

LEASE = timedelta(minutes=5)
WAITS = "status = 'queued' and suspect and not ready from penstock.jobs where job_id = $1"


async def nothing(args: Any) -> None:
    """Done."""


async def suspects_of(floor: Floor, job_type: str, count: int = 1, **options: Any) -> list[UUID]:
    """Jobs that a process held when it ended; in one transaction, so that nobody else comes upon them before."""
    await floor.app.sync_types()
    at_once = timedelta(microseconds=-1)
    async with floor.owner.transaction():
        jobs = [await floor.app.enqueue(job_type, {"n": n}, connection=floor.owner, **options) for n in range(count)]
        claims = await store.take(
            floor.owner, [job_type], [at_once], [store.START], limit=count, worker="gone", run=uuid4()
        ) or await store.take_gated(floor.owner, job_type, at_once, limit=count, worker="gone", run=uuid4())
        assert {claim.job_id for claim in claims} == set(jobs)
        reaped = {row["job_id"] for row in await store.reap(floor.owner)}
        assert reaped >= set(jobs)
    return jobs


class Stream:
    """Jobs that never run dry: each that ends puts another one in."""

    def __init__(self, floor: Floor, **policy: Any) -> None:
        self._floor = floor
        self._more = True
        self.ended = 0
        self.moved = asyncio.Event()

        @floor.app.job("ordinary", **policy)
        async def ordinary(args: Any) -> None:
            await asyncio.sleep(0.002)
            self.ended += 1
            self.moved.set()
            if self._more:
                await floor.app.enqueue("ordinary")

    @asynccontextmanager
    async def flowing(self, count: int) -> AsyncIterator[None]:
        """*count* of them at any time, as long as the block."""
        await self._floor.app.enqueue_many("ordinary", [{} for _ in range(count)])
        yield
        self._more = False

    async def goes_on(self, count: int) -> None:
        """Wait until *count* more have ended."""
        until = self.ended + count
        async with asyncio.timeout(15):
            while self.ended < until:
                self.moved.clear()
                await self.moved.wait()


@pytest.mark.contract("C-13")
async def test_a_suspect_runs_while_its_process_holds_nothing_else(floor: Floor) -> None:
    workers: list[Worker] = []
    beside: list[set[UUID]] = []

    @floor.app.job("lone", attempts=3)
    async def lone(job: Any, args: Any) -> None:
        for _ in range(20):
            beside.append(set(workers[0].place.held) - {job.job_id})
            await asyncio.sleep(0.001)

    stream = Stream(floor)
    async with floor.working(concurrency=10) as worker:
        workers.append(worker)
        async with stream.flowing(50):
            await stream.goes_on(20)
            jobs = await suspects_of(floor, "lone", 3)
            await floor.pass_time(seconds=2)  # a busy worker leaves them to idle ones for a moment
            worker._on_timer()  # as when it polls
            await floor.until("count(*) = 3 from penstock.jobs where job_type = 'lone' and status = 'completed'")
            await stream.goes_on(20)
    assert {(await floor.job(job_id))["attempt_count"] for job_id in jobs} == {1}
    assert (len(beside), set().union(*beside)) == (60, set())


@pytest.mark.contract("C-13")
async def test_suspects_come_in_the_order_of_their_rank_and_age(floor: Floor) -> None:
    seen: list[int] = []

    @floor.app.job("lone", attempts=3)
    async def lone(args: dict[str, int]) -> None:
        seen.append(args["n"])

    await floor.app.sync_types()
    for n, priority in enumerate((0, 0, -5)):
        await floor.app.enqueue("lone", {"n": n}, priority=priority)
    await store.take(floor.app.pool, ["lone"], [LEASE], [store.START], limit=3, worker="gone", run=uuid4())
    await floor.pass_time(minutes=6)
    async with floor.working():
        await floor.until("count(*) = 3 from penstock.jobs where status = 'completed'")
    assert seen == [2, 0, 1]


@pytest.mark.contract("C-13")
async def test_under_a_load_that_never_ends_a_suspect_gets_its_turn_and_the_other_process_goes_on(
    floor: Floor,
) -> None:
    """Two processes, one suspect: one of them lets go of its jobs and runs it, the other one never stops."""
    running, may_end = asyncio.Event(), asyncio.Event()

    @floor.app.job("lone", attempts=3)
    async def lone(args: Any) -> None:
        running.set()
        await may_end.wait()

    stream = Stream(floor)
    async with (
        floor.working(name="one", concurrency=5, types=["lone", "ordinary"]) as one,
        floor.working(name="two", concurrency=5, types=["lone", "ordinary"]) as two,
        stream.flowing(40),
    ):
        [job_id] = await suspects_of(floor, "lone")
        await floor.pass_time(seconds=2)  # busy workers leave it to idle ones for a moment, and there are none
        for worker in (one, two):
            worker._on_timer()  # as when they poll
        async with asyncio.timeout(15):
            await running.wait()
        await stream.goes_on(100)
        assert len(one.place.held) == 1 or len(two.place.held) == 1
        may_end.set()
        await floor.until("status = 'completed' from penstock.jobs where job_id = $1", job_id)
        before = await floor.owner.fetchval("select count(distinct claimed_by) from penstock.jobs")
        assert before == 2


@pytest.mark.contract("C-13")
async def test_a_worker_that_never_rests_looks_for_expired_leases_all_the_same(floor: Floor) -> None:
    """Every drain is followed by the next one at once; the poll comes between them."""
    floor.app.job("lone", attempts=3)(nothing)
    stream = Stream(floor, drain_cap=5)
    await floor.app.sync_types()
    job_id = await floor.app.enqueue("lone")
    await store.take(floor.app.pool, ["lone"], [LEASE], [store.START], limit=1, worker="gone", run=uuid4())
    async with floor.working(concurrency=5) as worker, stream.flowing(1000):
        worker._settings = worker._settings.model_copy(update={"poll_seconds": 0.05})
        worker._on_timer()
        await stream.goes_on(50)
        await floor.pass_time(minutes=6)
        await floor.until("status = 'completed' from penstock.jobs where job_id = $1", job_id)


@pytest.mark.contract("C-13")
async def test_a_busy_worker_sets_the_suspect_aside_and_gives_back_what_has_not_started(floor: Floor) -> None:
    may_end = asyncio.Event()
    floor.app.job("lone", attempts=3)(nothing)

    @floor.app.job("slow")
    async def slow(args: Any) -> None:
        await may_end.wait()

    async with floor.working(concurrency=1) as worker:
        worker.slots._ahead = 4  # as after many short jobs
        slow_ones = await floor.app.enqueue_many("slow", [{"n": n} for n in range(5)])
        await floor.until("count(*) = 5 from penstock.jobs where status = 'processing'")
        [job_id] = await suspects_of(floor, "lone")
        await floor.pass_time(seconds=2)
        worker._on_timer()
        await floor.until("count(*) = 4 from penstock.jobs where job_type = 'slow' and status = 'queued'")
        row = await floor.job(job_id)
        assert (row["status"], row["reserved_until"] is not None) == ("queued", True)
        assert await store.reserve(floor.app.pool, ["lone"], span=LEASE, waited=timedelta(0), worker="another") is None
        may_end.set()
        await floor.until("status = 'completed' from penstock.jobs where job_id = $1", job_id)
        await floor.until("count(*) = 5 from penstock.jobs where job_type = 'slow' and status = 'completed'")
    assert {(await floor.job(slow_one))["attempt_count"] for slow_one in slow_ones} == {0}


@pytest.mark.contract("C-13")
async def test_a_worker_that_stops_while_it_waits_for_its_handlers_lets_the_suspect_go(floor: Floor) -> None:
    floor.app.job("lone", attempts=3)(nothing)
    may_end = asyncio.Event()

    @floor.app.job("slow")
    async def slow(args: Any) -> None:
        await may_end.wait()

    async with floor.working(concurrency=1) as worker:
        await floor.app.enqueue("slow")
        await floor.until("count(*) = 1 from penstock.jobs where status = 'processing'")
        [job_id] = await suspects_of(floor, "lone")
        await floor.pass_time(seconds=2)
        worker._on_timer()
        await floor.until("reserved_until is not null from penstock.jobs where job_id = $1", job_id)
        worker.stop()
        await floor.until("reserved_until is null from penstock.jobs where job_id = $1", job_id)
        may_end.set()
    row = await floor.job(job_id)
    assert (row["status"], row["suspect"], row["claim_seq"]) == ("queued", True, 1)


@pytest.mark.contract("C-13")
async def test_a_suspect_that_a_shutdown_stops_stays_one_and_pays_nothing(floor: Floor) -> None:
    running = asyncio.Event()

    @floor.app.job("lone", attempts=3)
    async def lone(args: Any) -> None:
        running.set()
        await asyncio.Event().wait()

    [job_id] = await suspects_of(floor, "lone")
    async with floor.working() as worker:
        await running.wait()
        worker._settings = worker._settings.model_copy(update={"grace_seconds": 0.01})
    row = await floor.job(job_id)
    assert (row["status"], row["attempt_count"], row["suspect"], row["ready"]) == ("queued", 1, True, False)


@pytest.mark.contract("C-13")
async def test_a_suspect_that_asks_for_a_later_time_is_none_any_more(floor: Floor) -> None:
    @floor.app.job("lone", attempts=3)
    async def lone(args: Any) -> None:
        raise Snooze(timedelta(hours=1))

    [job_id] = await suspects_of(floor, "lone")
    async with floor.working():
        await floor.until("claim_seq = 2 and status = 'queued' from penstock.jobs where job_id = $1", job_id)
    row = await floor.job(job_id)
    assert (row["suspect"], row["attempt_count"]) == (False, 1)


@pytest.mark.contract("C-13")
async def test_a_suspect_that_never_started_is_given_back_for_a_while_as_one(floor: Floor) -> None:
    """As a run does whose time is up before it comes to it."""
    floor.app.job("lone", attempts=3)(nothing)
    [job_id] = await suspects_of(floor, "lone")
    pool = floor.app.pool
    [claim] = await take_suspect(pool, ["lone"], worker="w")
    back = store.Requeue(claim, timedelta(minutes=5), charged=False, survived=False)
    assert await store.requeue(pool, "w", [back]) == []
    assert await floor.owner.fetchval(f"select {WAITS}", job_id)
    assert await take_suspect(pool, ["lone"], worker="w") == []
    await floor.pass_time(minutes=5)
    assert await store.promote(pool, ["lone"]) == 0
    assert len(await take_suspect(pool, ["lone"], worker="w")) == 1


async def test_a_claim_whose_reply_was_lost_gives_a_suspect_back_as_one(floor: Floor) -> None:
    floor.app.job("lone", attempts=3)(nothing)
    [job_id] = await suspects_of(floor, "lone")
    assert len(await take_suspect(floor.app.pool, ["lone"], worker="w")) == 1
    assert await store.release_orphans(floor.app.pool, "w", [], younger=timedelta(minutes=10)) == 1
    assert await floor.owner.fetchval(f"select {WAITS}", job_id)


@pytest.mark.contract("C-13")
async def test_a_reservation_that_ran_out_is_no_claim(floor: Floor) -> None:
    """The worker that set the suspect aside was frozen; another one has it by then."""
    floor.app.job("lone", attempts=3)(nothing)
    await suspects_of(floor, "lone")
    pool = floor.app.pool
    span, none = timedelta(seconds=30), timedelta(0)
    first = await store.reserve(pool, ["lone"], span=span, waited=none, worker="one")
    assert first is not None
    assert await store.reserve(pool, ["lone"], span=span, waited=none, worker="two") is None
    await floor.pass_time(seconds=31)
    second = await store.reserve(pool, ["lone"], span=span, waited=none, worker="two")
    assert second is not None
    assert await store.keep_reserved(pool, first, span) is None
    assert await store.take_suspect(pool, first, LEASE, worker="one", run=uuid4()) == []
    kept = await store.keep_reserved(pool, second, span)
    assert kept is not None
    assert len(await store.take_suspect(pool, kept, LEASE, worker="two", run=uuid4())) == 1


@pytest.mark.contract("C-64", "C-13")
@pytest.mark.parametrize(
    "limit",
    [
        "max_running = 1",
        "rate_count = 1, rate_period = interval '1 hour'",
        "key_max_running = 1",
        "key_rate_count = 1, key_rate_period = interval '1 hour'",
        "breaker = 'half_open', breaker_probe_at = penstock.now() - interval '1 second'",
    ],
)
async def test_a_limit_of_one_lets_one_suspect_through(floor: Floor, limit: str) -> None:
    floor.app.job("lone", attempts=3)(nothing)
    await suspects_of(floor, "lone", 3, limit_key="a")
    await floor.owner.execute(f"update penstock.types set {limit} where job_type = 'lone'")
    assert len(await take_suspect(floor.app.pool, ["lone"], worker="one")) == 1
    for worker in ("one", "two"):
        assert await take_suspect(floor.app.pool, ["lone"], worker=worker) == []


@pytest.mark.contract("C-64")
async def test_room_under_a_limit_is_kept_for_a_suspect_that_is_set_aside(floor: Floor) -> None:
    """Else jobs that need not wait for a worker to be empty would always be faster."""
    floor.app.job("lone", attempts=3, limits=Limits(running=2))(nothing)
    await suspects_of(floor, "lone")
    await floor.app.enqueue_many("lone", [{"n": n} for n in range(5)])
    pool, awhile = floor.app.pool, timedelta(seconds=30)
    reserved = await store.reserve(pool, ["lone"], span=awhile, waited=timedelta(0), worker="one")
    assert reserved is not None

    assert len(await store.take_gated(pool, "lone", LEASE, limit=10, worker="two", run=uuid4())) == 1

    assert len(await store.take_suspect(pool, reserved, LEASE, worker="one", run=uuid4())) == 1
    assert await store.take_gated(pool, "lone", LEASE, limit=10, worker="two", run=uuid4()) == []


@pytest.mark.contract("C-64")
async def test_no_worker_stops_for_a_suspect_whose_gate_is_shut(floor: Floor) -> None:
    floor.app.job("lone", attempts=3, limits=Limits(running=1))(nothing)
    await suspects_of(floor, "lone")
    await floor.app.enqueue("lone")
    pool, awhile, none = floor.app.pool, timedelta(seconds=30), timedelta(0)
    assert len(await store.take_gated(pool, "lone", LEASE, limit=1, worker="busy", run=uuid4())) == 1
    assert await store.reserve(pool, ["lone"], span=awhile, waited=none, worker="another") is None
    assert await store.reserve(pool, ["lone"], span=awhile, waited=none, worker="busy") is not None
    await floor.pass_time(minutes=1)
    await type_store.pause(floor.owner, "lone", who="operator", why=None)
    assert await store.reserve(pool, ["lone"], span=awhile, waited=none, worker="busy") is None


async def test_the_next_wake_of_a_worker_is_soon_while_a_suspect_waits_for_nobody(floor: Floor) -> None:
    floor.app.job("lone", attempts=3)(nothing)
    await suspects_of(floor, "lone")
    pool, awhile = floor.app.pool, timedelta(seconds=30)
    wake = await store.next_wake(pool, ["lone"])
    assert (wake.due, wake.suspect) == (None, timedelta(milliseconds=100))
    assert await store.reserve(pool, ["lone"], span=awhile, waited=timedelta(0), worker="w") is not None
    wake = await store.next_wake(pool, ["lone"])
    assert wake.suspect is not None
    assert timedelta(seconds=25) < wake.suspect <= awhile
    assert (await store.next_wake(pool, ["other"])).suspect is None
