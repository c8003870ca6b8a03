"""Connections that freeze, are cut before or after a commit, or die with their server."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Penstock
from penstock.engine import listener
from penstock.engine.listener import Listener
from penstock.store import claims, connect

if TYPE_CHECKING:
    from tests.engine.worker.conftest import Floor
    from tests.support.proxy import Proxy
    from tests.support.servers import PrivateServer


def test_a_frozen_listener_is_noticed_within_fifteen_seconds() -> None:
    assert listener.PROBE + listener.PATIENCE < 15


@pytest.mark.contract("D-86", "C-29")
async def test_a_listener_that_hears_nothing_any_more_is_replaced_and_the_worker_drains(
    dsn: str, proxy: Proxy, floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 19: no data and no error. The poll is half a minute away."""
    monkeypatch.setitem(_defaults(), "probe", 0.3)
    monkeypatch.setitem(_defaults(), "patience", 0.3)
    done: asyncio.Queue[int] = asyncio.Queue()
    async with Penstock(dsn, listen_dsn=proxy.dsn) as app:

        @app.job("echo")
        async def echo(job: Any, args: dict[str, int]) -> None:
            done.put_nowait(args["n"])

        worker = app.worker(dsn=dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        proxy.freeze()
        await app.enqueue("echo", {"n": 1})  # nobody hears this poke
        async with asyncio.timeout(10):
            assert await done.get() == 1
            await floor.owner.execute("select pg_sleep(0)")
            await app.enqueue("echo", {"n": 2})  # this one is heard again
            assert await done.get() == 2
        worker.stop()
        await task


@pytest.mark.contract("C-31", "A-75")
async def test_a_completion_whose_reply_was_lost_counts_once(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 6: the commit happened and the worker does not know. It asks again, and nothing is lost or doubled."""
    ran: Counter[UUID] = Counter()

    @floor.app.job("echo")
    async def echo(job: Any, args: Any) -> None:
        ran[job.job_id] += 1

    tries = _lose_first_reply(monkeypatch, "complete")
    async with floor.working() as worker, asyncio.timeout(20):
        job_id = await floor.app.enqueue("echo")
        await floor.until("sum(succeeded_count) = 1 and sum(lost_count) = 0 from penstock.runs")
        await worker.settle()
    row = await floor.job(job_id)
    assert (row["status"], ran[job_id], row["claim_seq"], row["attempt_count"]) == ("completed", 1, 1, 0)
    assert len(tries) == 2


@pytest.mark.contract("C-31")
async def test_a_claim_whose_reply_was_lost_is_given_back_at_once(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is five minutes; the worker knows its own name and finds what it never heard of."""
    done = asyncio.Event()

    @floor.app.job("echo")
    async def echo(job: Any, args: Any) -> None:
        done.set()

    await floor.app.sync_types()
    async with floor.working() as worker, asyncio.timeout(20):
        _lose_first_reply(monkeypatch, "take")
        job_id = await floor.app.enqueue("echo")
        await done.wait()
        await worker.settle()
    row = await floor.job(job_id)
    assert (row["status"], row["claim_seq"], row["attempt_count"]) == ("completed", 2, 0)


def _lose_first_reply(monkeypatch: pytest.MonkeyPatch, statement: str) -> list[str]:
    """Let the first call of a statement of the store commit and then fail as a cut connection does."""
    calls: list[str] = []
    real = getattr(claims, statement)

    async def cut_off(*arguments: Any, **options: Any) -> Any:
        answer = await real(*arguments, **options)
        calls.append(statement)
        if len(calls) == 1:
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
        return answer

    monkeypatch.setattr(claims, statement, cut_off)
    return calls


@pytest.mark.contract("D-81", "D-84")
async def test_work_that_was_acknowledged_survives_a_killed_server(server: PrivateServer) -> None:
    """Fault 9: the postmaster dies with -9 while callers enqueue and a worker works; both go on by themselves."""
    ran: Counter[int] = Counter()
    acknowledged: list[int] = []
    hundred = asyncio.Event()
    async with Penstock(server.dsn, poll_seconds=1) as app:

        @app.job("echo")
        async def echo(job: Any, args: dict[str, int]) -> None:
            ran[args["n"]] += 1

        worker = app.worker(dsn=server.dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()

        async def call() -> None:
            for n in range(400):
                try:
                    await app.enqueue("echo", {"n": n}, key=str(n))
                except connect.AWAY:
                    await asyncio.sleep(0.02)
                else:
                    acknowledged.append(n)
                if len(acknowledged) == 100:
                    hundred.set()

        caller = asyncio.create_task(call())
        async with asyncio.timeout(60):
            await hundred.wait()
            await asyncio.to_thread(server.kill)
            met_dead = len(acknowledged)
            await asyncio.to_thread(server.start)
            await caller
            await _all_done(server.dsn)
        worker.stop()
        await task
    assert met_dead < 400  # calls were made while it was dead
    assert set(acknowledged) <= ran.keys()


async def _all_done(dsn: str) -> None:
    owner = await asyncpg.connect(dsn)
    while await owner.fetchval("select exists (select from penstock.jobs where finished_at is null)"):
        await owner.execute("select pg_sleep(0.05)")
    assert await owner.fetchval("select count(*) from penstock.jobs where status <> 'completed'") == 0
    await owner.close()


def _defaults() -> dict[str, Any]:
    defaults = Listener.__init__.__kwdefaults__
    assert defaults is not None
    return defaults
