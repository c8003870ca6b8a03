"""Pauses and breakers: what holds a type back, and what lets it go on (C-64)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock import Breaker, Failed, FailureClass, Penstock, Schedule
from penstock.contract.errors import NotFound
from penstock.store import claims, types
from penstock.testing import Harness
from tests.engine.looking import alerts, nothing, until

COOLDOWN = timedelta(minutes=1)


async def gate(app: Penstock) -> tuple[str, int, str | None]:
    [row] = await app.pool.fetch(
        "select breaker, breaker_failures, breaker_code from penstock.types where job_type = 'calls'"
    )
    return row["breaker"], row["breaker_failures"], row["breaker_code"]


class Upstream:
    """What the handler calls: good or bad, as told."""

    def __init__(self) -> None:
        self.broken: FailureClass | None = None
        self.calls = 0
        self.look: Callable[[], Awaitable[object]] | None = None
        self.seen: list[object] = []  # what a look at each call has shown

    async def call(self) -> None:
        self.calls += 1
        if self.look is not None:
            self.seen.append(await self.look())
        if self.broken is not None:
            raise Failed(self.broken)


@pytest.fixture
def upstream(app: Penstock) -> Upstream:
    made = Upstream()

    @app.job("calls", breaker=Breaker(after=3, cooldown=COOLDOWN), backoff=Schedule([0]))
    async def calls(job: Any, args: Any) -> None:
        await made.call()

    return made


@pytest.mark.contract("C-64")
@pytest.mark.parametrize(
    "broken", [FailureClass.AUTH_DENIED, FailureClass.QUOTA_EXHAUSTED, FailureClass.CONFIG_INVALID]
)
async def test_a_breaker_opens_after_so_many_failures_that_no_retry_can_mend(
    app: Penstock, upstream: Upstream, broken: FailureClass
) -> None:
    upstream.broken = broken
    async with Harness(app, concurrency=1) as harness:
        for _ in range(2):
            await harness.enqueue("calls")
            await harness.drain()
        assert await gate(app) == ("closed", 2, str(broken))
        ids = [await harness.enqueue("calls") for _ in range(5)]
        await harness.drain()
        assert await gate(app) == ("open", 3, str(broken))
        assert [await harness.status(job_id) for job_id in ids] == ["failed"] + ["queued"] * 4
        assert ("breaker_opened", "alert") in await alerts(harness)
    assert upstream.calls == 3


@pytest.mark.contract("C-64")
async def test_an_ordinary_failure_opens_nothing(app: Penstock, upstream: Upstream) -> None:
    upstream.broken = FailureClass.SCHEMA_INVALID
    async with Harness(app) as harness:
        for _ in range(5):
            await harness.enqueue("calls")
        await harness.drain()
        assert await gate(app) == ("closed", 0, None)


@pytest.mark.contract("C-64")
async def test_a_success_in_between_ends_the_row_also_on_another_worker(app: Penstock, upstream: Upstream) -> None:
    async with Harness(app, concurrency=1) as harness:
        for worker in ("one", "two", "one", "two", "one"):
            upstream.broken = FailureClass.AUTH_DENIED
            for _ in range(2):
                await harness.enqueue("calls")
                await harness.drain(worker)
            upstream.broken = None
            await harness.enqueue("calls")
            await harness.drain("two")
        assert await gate(app) == ("closed", 0, None)


async def opened(harness: Harness, upstream: Upstream) -> None:
    upstream.broken = FailureClass.AUTH_DENIED
    for _ in range(3):
        await harness.enqueue("calls")
    await harness.drain()
    assert (await gate(harness.app))[0] == "open"


@pytest.mark.contract("C-64")
async def test_one_probe_after_the_cooldown_and_a_success_closes(app: Penstock, upstream: Upstream) -> None:
    async with Harness(app, concurrency=1) as harness:
        await opened(harness, upstream)
        ids = [await harness.enqueue("calls") for _ in range(4)]
        upstream.broken, upstream.calls = None, 0
        await harness.pass_time(seconds=50)
        assert await harness.drain() == 0
        await harness.pass_time(seconds=11)
        upstream.look = lambda: app.pool.fetchval("select breaker from penstock.types where job_type = 'calls'")
        await harness.drain()
        assert upstream.seen == ["half_open", "closed", "closed", "closed"], "the others wait for the probe's success"
        assert await gate(app) == ("closed", 0, None)
        assert {await harness.status(job_id) for job_id in ids} == {"completed"}


@pytest.mark.contract("C-64")
async def test_a_probe_that_fails_keeps_the_others_back_for_another_cooldown(app: Penstock, upstream: Upstream) -> None:
    async with Harness(app, concurrency=1) as harness:
        await opened(harness, upstream)
        for _ in range(4):
            await harness.enqueue("calls")
        upstream.calls = 0
        for probe in (1, 2):
            await harness.pass_time(seconds=61)
            await harness.drain()
            assert upstream.calls == probe
            assert (await gate(app))[0] == "open"
        assert [kind for kind, _ in await alerts(harness)].count("breaker_opened") == 1


@pytest.mark.contract("C-64")
async def test_while_a_probe_is_under_way_there_is_no_second(app: Penstock) -> None:
    release, inside = asyncio.Event(), asyncio.Event()
    calls: list[int] = []

    @app.job("calls", breaker=Breaker(after=1, cooldown=COOLDOWN))
    async def handler(job: Any, args: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise Failed(FailureClass.AUTH_DENIED)
        inside.set()
        await release.wait()

    async with Harness(app) as harness:
        await harness.enqueue("calls")
        await harness.drain()
        for _ in range(3):
            await harness.enqueue("calls")
        await harness.pass_time(seconds=61)
        probing = asyncio.create_task((await harness.worker("one")).work())
        await inside.wait()
        assert (await gate(app))[0] == "half_open"
        assert await harness.drain("two") == 0
        release.set()
        await probing
        assert (await gate(app))[0] == "closed"


@pytest.mark.contract("C-64")
async def test_a_success_that_began_before_it_opened_does_not_close_it(app: Penstock) -> None:
    release, inside = asyncio.Event(), asyncio.Event()

    @app.job("calls", breaker=Breaker(after=1, cooldown=COOLDOWN))
    async def handler(job: Any, args: Any) -> None:
        if args.get("slow"):
            inside.set()
            await release.wait()
        else:
            raise Failed(FailureClass.AUTH_DENIED)

    async with Harness(app) as harness:
        await harness.enqueue("calls", {"slow": True})
        slow = asyncio.create_task((await harness.worker("one")).work())
        await inside.wait()
        await harness.enqueue("calls")
        await harness.drain("two")
        release.set()
        await slow
        assert (await gate(app))[0] == "open"
        assert await types.close_breaker(app.pool, "calls")  # an operator may
        assert (await gate(app))[0] == "closed"


@pytest.mark.contract("C-64")
async def test_what_was_claimed_ahead_goes_back_when_the_breaker_opens(app: Penstock) -> None:
    """One expired key must not spend a whole backlog."""
    calls: list[int] = []

    @app.job("calls", breaker=Breaker(after=3, cooldown=COOLDOWN))
    async def handler(job: Any, args: Any) -> None:
        calls.append(1)
        await asyncio.sleep(0.01)
        raise Failed(FailureClass.AUTH_DENIED)

    async with Harness(app) as harness:
        await app.enqueue_many("calls", [{}] * 500)
        async with harness.running("one", concurrency=2):
            await until(app.pool, "breaker = 'open' from penstock.types where job_type = 'calls'")
            await until(app.pool, "count(*) = 0 from penstock.jobs where status = 'processing'")
        failed = await app.pool.fetchval("select count(*) from penstock.jobs where status = 'failed'")
        assert await app.pool.fetchval("select count(*) from penstock.jobs where status = 'queued'") == 500 - failed
    assert failed == len(calls) < 100


@pytest.mark.contract("C-64", "C-29")
async def test_a_worker_wakes_for_the_probe(app: Penstock) -> None:
    upstream = Upstream()
    upstream.broken = FailureClass.AUTH_DENIED

    @app.job("calls", breaker=Breaker(after=1, cooldown=timedelta(seconds=0.5)))
    async def handler(job: Any, args: Any) -> None:
        await upstream.call()

    async with Harness(app) as harness, harness.running("one"):
        await harness.enqueue("calls")
        await until(app.pool, "breaker = 'open' from penstock.types where job_type = 'calls'")
        upstream.broken = None
        job_id = await harness.enqueue("calls")
        await until(app.pool, "status = 'completed' from penstock.jobs where job_id = $1", job_id, seconds=10)
        await until(app.pool, "breaker = 'closed' from penstock.types where job_type = 'calls'", seconds=10)


@pytest.mark.contract("C-64", "C-29")
async def test_the_time_of_the_probe_is_told_and_a_pause_has_none(app: Penstock, upstream: Upstream) -> None:
    async with Harness(app) as harness:
        await opened(harness, upstream)
        await harness.enqueue("calls")
        wake = await claims.next_wake(app.pool, ["calls"])
        assert wake.gate is not None
        assert timedelta(seconds=50) < wake.gate <= COOLDOWN
        await types.pause(app.pool, "calls", who="alex", why="mending")
        assert (await claims.next_wake(app.pool, ["calls"])).gate is None


@pytest.mark.contract("C-64")
async def test_a_pause_stops_the_next_claim_and_a_resume_starts_it_at_once(app: Penstock) -> None:
    app.job("calls")(nothing)
    async with Harness(app) as harness, harness.running("one"), harness.running("two"):
        await types.pause(app.pool, "calls", who="alex", why="a bad deploy")
        ids = [await harness.enqueue("calls") for _ in range(5)]
        await app.pool.execute("select penstock.poke('penstock_jobs', 'calls')")
        await until(app.pool, "count(*) = 2 from penstock.workers")
        assert await app.pool.fetchval("select count(*) from penstock.jobs where status = 'queued'") == 5
        row = await app.pool.fetchrow("select paused_by, pause_reason, gated from penstock.types")
        assert tuple(row or ()) == ("alex", "a bad deploy", True)
        await types.resume(app.pool, "calls")
        await until(app.pool, "count(*) = 5 from penstock.jobs where status = 'completed'", seconds=10)
    assert len(ids) == 5


@pytest.mark.contract("C-64")
async def test_a_pause_lets_what_runs_go_on_and_gives_back_what_has_not_started(app: Penstock) -> None:
    release, inside = asyncio.Event(), asyncio.Event()

    @app.job("calls")
    async def handler(job: Any, args: Any) -> None:
        inside.set()
        await release.wait()

    async with Harness(app) as harness:
        hand = await harness.worker(concurrency=1)
        ids = [await harness.enqueue("calls") for _ in range(3)]
        hand.slots._ahead = 10  # as after many short jobs
        working = asyncio.create_task(hand.work())
        await inside.wait()
        await until(app.pool, "count(*) = 3 from penstock.jobs where status = 'processing'")
        await types.pause(app.pool, "calls", who="alex", why=None)
        await hand.fetcher.look_at_gates()
        await until(app.pool, "count(*) = 2 from penstock.jobs where status = 'queued'")
        release.set()
        await working
        statuses = [await harness.status(job_id) for job_id in ids]
    assert sorted(statuses) == ["completed", "queued", "queued"]


@pytest.mark.contract("C-64")
async def test_a_type_that_is_not_there_cannot_be_paused(app: Penstock) -> None:
    app.job("calls")(nothing)
    async with Harness(app):
        for move in (types.pause(app.pool, "cals", who="alex", why=None), types.resume(app.pool, "cals")):
            with pytest.raises(NotFound, match="cals"):
                await move


@pytest.mark.contract("C-64")
async def test_a_new_policy_leaves_a_pause_alone(dsn: str) -> None:
    first = Penstock(dsn, grace_seconds=5)
    first.job("calls")(nothing)
    async with Harness(first) as harness:
        await types.pause(harness.app.pool, "calls", who="alex", why=None)
    second = Penstock(dsn, grace_seconds=5)
    second.job("calls", attempts=9)(nothing)
    async with Harness(second) as harness:
        await harness.enqueue("calls")
        assert await harness.drain() == 0
        row = await harness.app.pool.fetchrow("select policy_version, paused_by from penstock.types")
        assert tuple(row or ()) == (2, "alex")
