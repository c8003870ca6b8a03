"""How much may run at once: per type and per key, across all workers (C-64)."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from penstock import Failed, FailureClass, Limits, Penstock
from penstock.contract.claims import Claim
from penstock.engine import recorder
from penstock.store import claims, types
from penstock.testing import Harness
from tests.engine.looking import nothing, until

LEASE = timedelta(minutes=5)


class Gauge:
    """How many handlers are inside at once, and how many ever were."""

    def __init__(self, full: int = 0) -> None:
        self.full = full  # the first ones of each name wait until so many of it are inside
        self.filled: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.done = 0

    async def work(self, name: str = "all", seconds: float = 0.003) -> None:
        """Be inside for a moment."""
        self.inside[name] += 1
        self.most[name] = max(self.most[name], self.inside[name])
        if self.inside[name] >= self.full:
            self.filled[name].set()
        async with asyncio.timeout(20):
            await self.filled[name].wait()
        await asyncio.sleep(seconds)
        self.inside[name] -= 1
        self.done += 1


async def take(app: Penstock, limit: int = 10, job_type: str = "limited", worker: str = "w") -> list[Claim]:
    return await claims.take_gated(app.pool, job_type, LEASE, limit=limit, worker=worker, run=uuid4())


@pytest.mark.contract("C-64")
async def test_two_workers_together_never_run_more_than_the_type_allows(app: Penstock) -> None:
    gauge = Gauge(full=3)

    @app.job("limited", limits=Limits(running=3))
    async def limited(job: Any, args: Any) -> None:
        await gauge.work()

    async with Harness(app) as harness, harness.running("one", concurrency=2), harness.running("two", concurrency=2):
        await app.enqueue_many("limited", [{}] * 60)
        await until(app.pool, "count(*) = 60 from penstock.jobs where status = 'completed'")
        workers = await app.pool.fetch("select distinct claimed_by from penstock.jobs")
    assert gauge.most["all"] == 3
    assert gauge.done == 60
    assert {row[0] for row in workers} == {"one", "two"}


@pytest.mark.contract("C-64")
async def test_each_key_has_its_own_room(app: Penstock) -> None:
    gauge = Gauge(full=2)

    @app.job("limited", limits=Limits(key_running=2))
    async def limited(job: Any, args: Any) -> None:
        await gauge.work(args["key"])

    async with Harness(app) as harness, harness.running("one"), harness.running("two"):
        keys = [f"home-{n % 4}" for n in range(48)]
        await app.enqueue_many("limited", [{"key": key} for key in keys], limit_keys=keys)
        await until(app.pool, "count(*) = 48 from penstock.jobs where status = 'completed'")
    assert gauge.most == {f"home-{n}": 2 for n in range(4)}


@pytest.mark.contract("C-64")
async def test_jobs_without_a_key_share_one(app: Penstock) -> None:
    app.job("limited", limits=Limits(key_running=2))(nothing)
    async with Harness(app) as harness:
        for _ in range(5):
            await harness.enqueue("limited")
        await harness.enqueue("limited", limit_key="mine")
        assert len(await take(app)) == 3


@pytest.mark.contract("C-64")
async def test_jobs_older_than_the_limit_of_keys_run_under_the_type_s_alone(app: Penstock) -> None:
    app.job("limited")(nothing)
    async with Harness(app) as harness:
        for _ in range(3):
            await harness.enqueue("limited")
        await types.set_limits(app.pool, "limited", Limits(key_running=1))
        for _ in range(3):
            await harness.enqueue("limited")
        assert len(await take(app)) == 4


@pytest.mark.contract("C-64")
async def test_both_limits_hold_together(app: Penstock) -> None:
    app.job("limited", limits=Limits(running=5, key_running=2))(nothing)
    async with Harness(app):
        keys = [f"k{n // 10}" for n in range(40)]
        await app.enqueue_many("limited", [{}] * 40, limit_keys=keys)
        taken = await take(app, limit=100)
        assert Counter(claim.limit_key for claim in taken) == {"k0": 2, "k1": 2, "k2": 1}
        assert await take(app) == []


@pytest.mark.contract("C-64")
async def test_every_key_gets_its_turn_whatever_another_has_waiting(app: Penstock) -> None:
    app.job("limited", limits=Limits(running=1, key_running=1))(nothing)
    async with Harness(app):
        keys = ["big"] * 500 + ["a", "z", "m"]
        await app.enqueue_many("limited", [{}] * 503, limit_keys=keys)
        order = []
        for _ in range(6):
            [claim] = await take(app)
            order.append(str(claim.limit_key))
            assert await claims.complete(app.pool, "w", [claim]) == []
    assert sorted(order[:4]) == ["a", "big", "m", "z"]
    assert order[4:] == ["big", "big"]


@pytest.mark.contract("C-64")
async def test_one_claim_goes_all_the_way_round(app: Penstock) -> None:
    """The last claim ended at the end of the alphabet; the keys before it are found all the same."""
    app.job("limited", limits=Limits(key_running=1))(nothing)
    async with Harness(app):
        await app.enqueue_many("limited", [{}] * 3, limit_keys=["a", "b", "z"])
        await app.pool.execute("update penstock.types set key_cursor = 'y' where job_type = 'limited'")
        assert {claim.limit_key for claim in await take(app)} == {"a", "b", "z"}


@pytest.mark.contract("C-64")
async def test_a_long_backlog_of_one_key_costs_the_others_nothing(app: Penstock) -> None:
    """Counted in buffers: the claim jumps from key to key and never walks through one."""
    app.job("limited", limits=Limits(key_running=1))(nothing)
    async with Harness(app):
        read: list[int] = []
        for backlog in (10, 50_000):
            await app.enqueue_many("limited", [{}] * backlog, limit_keys=["a-big"] * backlog)
            await app.pool.execute("analyze penstock.jobs")
            assert len(await take(app)) == len(read) ^ 1  # the first time one of a-big, then it is full
            await app.enqueue_many("limited", [{}] * 2, limit_keys=[f"b{backlog}", f"c{backlog}"])
            plan = await app.pool.fetchval(
                "explain (analyze, buffers, format json) "
                "select * from penstock.claim_gated('limited', 'w', interval '5 min', 10, gen_random_uuid())"
            )
            read.append(_buffers(plan))
            assert await app.pool.fetchval(
                "select count(*) from penstock.jobs where limit_key ~ '^[bc]' and status = 'processing'"
            ) == 2 * len(read)
    assert read[1] < read[0] + 150, read  # 17 more on PostgreSQL 18, 117 more on 15


def _buffers(plan: str) -> int:
    import json

    node = json.loads(plan)[0]["Plan"]
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


@pytest.mark.contract("C-64")
async def test_the_end_of_a_job_starts_the_next_at_once(app: Penstock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll is half a minute away, nobody pokes, and the record of a run could wait for a minute."""
    monkeypatch.setattr(recorder, "IDLE_SAVE", 60.0)
    gauge = Gauge()

    @app.job("limited", limits=Limits(running=1))
    async def limited(job: Any, args: Any) -> None:
        await gauge.work(seconds=0)
        if args.get("fails"):
            raise Failed(FailureClass.NOT_FOUND)

    async with Harness(app) as harness:
        await app.enqueue_many("limited", [{"fails": n % 5 == 0} for n in range(40)])
        async with harness.running("one"):
            await until(app.pool, "count(*) = 40 from penstock.jobs where finished_at is not null", seconds=10)
    assert gauge.most["all"] == 1


@pytest.mark.contract("C-64")
async def test_a_worker_with_room_takes_over_from_one_without(app: Penstock) -> None:
    release = asyncio.Event()

    @app.job("limited", limits=Limits(running=1))
    async def limited(job: Any, args: Any) -> None: ...

    @app.job("long")
    async def long(job: Any, args: Any) -> None:
        await release.wait()

    async with Harness(app) as harness:
        await harness.enqueue("limited")
        [held] = await take(app, worker="elsewhere")
        await harness.enqueue("limited")
        async with harness.running("one"):
            assert await claims.complete(app.pool, "elsewhere", [held]) == []
            await until(app.pool, "count(*) = 2 from penstock.jobs where status = 'completed'", seconds=10)
        release.set()


@pytest.mark.contract("C-64")
async def test_an_open_backlog_does_not_starve_a_limited_type(app: Penstock) -> None:
    done: list[int] = []

    @app.job("open")
    async def open_type(job: Any, args: Any) -> None:
        done.append(0)

    @app.job("limited", limits=Limits(running=1))
    async def limited(job: Any, args: Any) -> None:
        done.append(1)

    async with Harness(app) as harness:
        await app.enqueue_many("open", [{}] * 3000)
        await harness.enqueue("limited")
        async with harness.running("one", concurrency=2):
            await until(app.pool, "count(*) = 3001 from penstock.jobs where status = 'completed'")
    assert done.index(1) < 2500


@pytest.mark.contract("C-64")
async def test_limits_may_come_and_go_while_workers_run(app: Penstock) -> None:
    gauge = Gauge()

    @app.job("limited")
    async def limited(job: Any, args: Any) -> None:
        await gauge.work(args["phase"])

    async with Harness(app) as harness, harness.running("one"), harness.running("two"):
        await app.enqueue_many("limited", [{"phase": "free"}] * 40)
        await until(app.pool, "count(*) = 40 from penstock.jobs where status = 'completed'")
        await types.set_limits(app.pool, "limited", Limits(running=2))
        await app.enqueue_many("limited", [{"phase": "limited"}] * 20)
        await until(app.pool, "count(*) = 60 from penstock.jobs where status = 'completed'")
        await types.set_limits(app.pool, "limited", Limits())
        await app.enqueue_many("limited", [{"phase": "free again"}] * 40)
        await until(app.pool, "count(*) = 100 from penstock.jobs where status = 'completed'")
    assert gauge.most["limited"] == 2
    assert gauge.most["free"] > 2
    assert gauge.most["free again"] > 2


@pytest.mark.contract("C-64")
async def test_a_worker_s_own_role_may_claim_under_limits(app: Penstock, role_dsn: Any) -> None:
    from penstock import Rate

    app.job("limited", limits=Limits(running=5, key_rate=Rate(10, timedelta(seconds=1))))(nothing)
    async with Harness(app) as harness:
        job_id = await harness.enqueue("limited", limit_key="k")
        await app.pool.execute(
            "insert into penstock.rates (job_type, limit_key, starts, counts, expires_at) "
            "values ('limited', ':old', '{}', '{}', penstock.now() - interval '1 day')"
        )
        await (await harness.worker("role", dsn=role_dsn("penstock_worker"), insecure=False)).work()
        assert await harness.status(job_id) == "completed"
        assert await app.pool.fetch("select limit_key from penstock.rates") == [(":k",)]
