"""Handlers that are plain functions: the same transactions and effects, from their threads."""

from __future__ import annotations

import asyncio
import functools
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Absent, EffectUncertain, Found, LeaseLost, Penstock, Schedule
from penstock.contract.errors import SettingsInvalid
from penstock.testing import Harness
from tests.engine.looking import letter

if TYPE_CHECKING:
    import asyncpg

    Owner = asyncpg.Connection[Any]

WRITE = "insert into public.writes (job_id, claim_seq, note) values ($1, $2, 'written')"


@pytest.mark.contract("C-60")
async def test_a_thread_s_transaction_commits_with_the_completion(app: Penstock, owner: Owner) -> None:
    threads: list[str] = []

    @app.job("write")
    def write(job: Any, args: Any) -> None:
        threads.append(threading.current_thread().name)
        with job.sync.transaction() as tx:
            tx.execute(WRITE, job.job_id, job.claim_seq)
            tx.executemany(WRITE, [(job.job_id, n) for n in (7, 8)])
            assert tx.fetchval("select count(*) from public.writes") == 3
            assert tx.fetchrow("select 1 as one")["one"] == 1
            assert [row["n"] for row in tx.fetch("select unnest(array[1, 2]) as n")] == [1, 2]

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        assert await harness.status(job_id) == "completed"
        same = (
            "select count(distinct xmin::text) from "
            "(select xmin from public.writes union all select xmin from penstock.jobs) as rows"
        )
        assert await owner.fetchval(same) == 1
    assert threads[0].startswith("penstock-handler")


@pytest.mark.contract("C-60", "C-31")
async def test_a_thread_that_lost_its_lease_rolls_back(app: Penstock, owner: Owner) -> None:
    raised: list[type[BaseException]] = []

    @app.job("write")
    def write(job: Any, args: Any) -> None:
        try:
            with job.sync.transaction() as tx:
                tx.execute(WRITE, job.job_id, job.claim_seq)
                job.sync.call(take_away(job.job_id))
        except LeaseLost as error:
            raised.append(type(error))
            raise

    async def take_away(job_id: Any) -> None:
        await owner.execute(
            "update penstock.jobs set status = 'canceled', finished_at = penstock.now(), lease_expires_at = null "
            "where job_id = $1",
            job_id,
        )

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        assert await harness.status(job_id) == "canceled"
    assert raised == [LeaseLost]
    assert await owner.fetchval("select count(*) from public.writes") == 0


@pytest.mark.contract("C-60")
async def test_an_error_in_a_thread_s_transaction_rolls_back_and_is_retried(app: Penstock, owner: Owner) -> None:
    @app.job("write", backoff=Schedule([0]))
    def write(job: Any, args: Any) -> None:
        with job.sync.transaction() as tx:
            tx.execute(WRITE, job.job_id, job.claim_seq)
            if job.attempt == 1:
                raise TimeoutError

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"]) == ("completed", 1)
    assert await owner.fetchval("select count(*) from public.writes") == 1


@pytest.mark.contract("C-61")
async def test_an_effect_of_a_thread_runs_in_that_thread_and_at_most_once(app: Penstock) -> None:
    performed: list[str] = []
    asked: list[str] = []
    where: list[str] = []

    def perform(token: str) -> dict[str, int]:
        where.append(threading.current_thread().name)
        performed.append(token)
        if len(performed) == 1:
            raise ConnectionResetError  # it went out, and the reply was lost
        return {"n": len(performed)}

    def settle(token: str) -> Found | Absent:
        where.append(threading.current_thread().name)
        asked.append(token)
        return Found({"n": 1}) if token in performed else Absent()

    results: list[Any] = []

    @app.job("mail", backoff=Schedule([0]))
    def mail(job: Any, args: Any) -> None:
        where.append(threading.current_thread().name)
        results.append(job.sync.effect("send", perform=perform, settle=settle))
        results.append(job.sync.effect("send", perform=perform, settle=settle))

    async with Harness(app, concurrency=1) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        assert await harness.status(job_id) == "completed"
    assert performed == asked
    assert results == [{"n": 1}, {"n": 1}]
    assert len(set(where)) == 1


@pytest.mark.contract("C-61")
async def test_a_thread_s_doubt_goes_to_a_person_too(app: Penstock) -> None:
    uncertain: list[bool] = []

    def perform(token: str) -> None:
        raise TimeoutError

    @app.job("mail", backoff=Schedule([0]))
    def mail(job: Any, args: Any) -> None:
        try:
            job.sync.effect("send", perform=perform)
        except EffectUncertain:
            uncertain.append(True)
            raise

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        assert (await letter(harness, job_id))["reason"] == "integrity"
    assert uncertain == [True]


@pytest.mark.contract("C-63", "C-31")
async def test_a_thread_past_its_time_can_write_nothing_more(app: Penstock, owner: Owner) -> None:
    release = threading.Event()
    ended = threading.Event()
    raised: list[type[BaseException]] = []

    @app.job("stuck", timeout=timedelta(seconds=0.1), attempts=1)
    def stuck(job: Any, args: Any) -> None:
        try:
            with job.sync.transaction() as tx:
                tx.execute(WRITE, job.job_id, job.claim_seq)
                release.wait(20)
                tx.execute(WRITE, job.job_id, job.claim_seq)
        except BaseException as error:
            raised.append(type(error))
        finally:
            ended.set()

    async with Harness(app) as harness:
        job_id = await harness.enqueue("stuck")
        await harness.drain()
        assert (await letter(harness, job_id))["error_class"] == "HANDLER_TIMEOUT"
        release.set()
        await asyncio.to_thread(ended.wait, 10)
    assert raised == [LeaseLost]
    assert await owner.fetchval("select count(*) from public.writes") == 0


@pytest.mark.contract("C-60")
async def test_a_handler_in_the_loop_has_no_use_for_the_bridge(app: Penstock) -> None:
    refused: list[str] = []

    @app.job("async")
    async def in_the_loop(job: Any, args: Any) -> None:
        with pytest.raises(SettingsInvalid) as caught:
            _ = job.sync
        refused.append(str(caught.value))

    async with Harness(app) as harness:
        await harness.enqueue("async")
        await harness.drain()
    assert "await job.transaction()" in refused[0]


async def test_a_plain_function_that_returns_a_coroutine_is_no_success(app: Penstock) -> None:
    async def inner() -> None: ...

    @app.job("forgot", attempts=1)
    def forgot(job: Any, args: Any) -> Any:
        return inner()

    async with Harness(app) as harness:
        job_id = await harness.enqueue("forgot")
        await harness.drain()
        dead = await letter(harness, job_id)
        assert dead["error_class"] == "CONFIG_INVALID"
        assert "async def" in dead["last_stack"]


async def test_a_handler_under_a_decorator_is_recognised(app: Penstock) -> None:
    ran: list[str] = []

    def traced(call: Any) -> Any:
        @functools.wraps(call)
        async def wrapper(*arguments: Any) -> Any:
            ran.append("wrapper")
            return call(*arguments)

        return wrapper

    @app.job("wrapped")
    @traced
    def wrapped(job: Any, args: Any) -> None:
        ran.append("handler")

    class Greeter:
        async def __call__(self, _job: Any, args: dict[str, Any]) -> None:
            ran.append(f"object{args}")

    app.job("object")(Greeter())
    async with Harness(app) as harness:
        ids = [await harness.enqueue(name) for name in ("wrapped", "object")]
        await harness.drain()
        assert [await harness.status(job_id) for job_id in ids] == ["completed", "completed"]
    assert sorted(ran) == ["handler", "object{}", "wrapper"]


def test_a_generator_is_no_handler(app: Penstock) -> None:
    with pytest.raises(SettingsInvalid, match="generator"):

        @app.job("yields")
        async def yields(job: Any, args: Any) -> Any:
            yield 1
