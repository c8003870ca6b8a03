"""The primary dies and its replica takes over: what was acknowledged, and what that word was worth."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.contract.errors import CommitInDoubt
from penstock.store import connect
from tests.support.replicas import Pair, replicated

if TYPE_CHECKING:
    from tests.support.servers import PrivateServer


@pytest.fixture
def pair(server: PrivateServer) -> Iterator[Pair]:
    made = replicated(server)
    yield made
    made.clear_away()


@dataclass
class Site:
    """An application and its worker on whichever server leads."""

    app: Penstock
    ran: Counter[int]

    async def call(self, numbers: range, failing: asyncio.Event | None = None) -> list[int]:
        """Enqueue, by key, until all have gone in or were refused once; returns those that were acknowledged."""
        acknowledged: list[int] = []
        for n in numbers:
            try:
                await self.app.enqueue("echo", {"n": n}, key=str(n))
            except connect.AWAY:
                await asyncio.sleep(0.02)
            else:
                acknowledged.append(n)
            if failing is not None and len(acknowledged) == 50:
                failing.set()
        return acknowledged


@pytest.fixture
async def site(pair: Pair) -> AsyncIterator[Site]:
    ran: Counter[int] = Counter()
    async with Penstock(pair.dsn, poll_seconds=1) as app:

        @app.job("echo")
        async def echo(job: Any, args: dict[str, int]) -> None:
            ran[args["n"]] += 1

        worker = app.worker(dsn=pair.dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        yield Site(app, ran)
        pair.wait_no_longer()  # a test that failed half-way could not be cleared away
        worker.stop()
        await task


@pytest.mark.contract("D-81", "D-84")
async def test_nothing_acknowledged_is_lost_with_a_replica_that_is_waited_for(pair: Pair, site: Site) -> None:
    """Fault 36."""
    await asyncio.to_thread(pair.wait_for_replica)
    some = asyncio.Event()
    async with asyncio.timeout(60):
        calls = asyncio.create_task(site.call(range(300), some))
        await some.wait()
        await asyncio.to_thread(pair.fail_over)
        acknowledged = await calls
        await _all_done(pair.dsn)
    assert len(acknowledged) > 50
    assert set(acknowledged) <= await _stored(pair.dsn)
    assert set(acknowledged) <= site.ran.keys()


@pytest.mark.contract("D-84")
async def test_without_waiting_exactly_what_the_replica_had_not_heard_is_lost(pair: Pair, site: Site) -> None:
    """Fault 35: the loss that is declared. What it had runs, also again; the work goes on by itself."""
    async with asyncio.timeout(60):
        safe = await site.call(range(100))
        await _all_done(pair.dsn)
        await asyncio.to_thread(pair.part)
        window = await site.call(range(100, 150))
        await asyncio.to_thread(pair.fail_over)
        again = await site.call(range(140, 200))
        await _all_done(pair.dsn)
    assert (len(safe), len(window)) == (100, 50)
    assert again[-10:] == list(range(190, 200))
    assert await _stored(pair.dsn) == {*safe, *again}
    assert {*safe, *again} <= site.ran.keys()


@pytest.mark.contract("C-65")
@pytest.mark.parametrize("way", ["enqueue", "bulk", "transaction"])
async def test_a_commit_that_no_longer_waits_for_its_replica_is_in_doubt(pair: Pair, site: Site, way: str) -> None:
    """Fault 37: the server reports success, with a warning. A failover would show that it was none."""
    await site.call(range(1))
    await asyncio.to_thread(pair.wait_for_replica)
    await asyncio.to_thread(pair.part)
    call = asyncio.create_task(_put_seven(site.app, way))
    waiting = "from pg_stat_activity where wait_event = 'SyncRep' and application_name = 'penstock'"
    await asyncio.to_thread(pair.until, f"select exists (select {waiting})")
    await asyncio.to_thread(pair.on_primary, f"select pg_cancel_backend(pid) {waiting}")
    async with asyncio.timeout(20):
        with pytest.raises(CommitInDoubt, match="enqueue again with the same key"):
            await call
        await asyncio.to_thread(pair.fail_over)
        assert 7 not in await _stored(pair.dsn)
        assert await site.call(range(7, 8)) == [7]
        await _all_done(pair.dsn)
    assert await _stored(pair.dsn) == {0, 7}


async def _put_seven(app: Penstock, way: str) -> None:
    if way == "enqueue":
        await app.enqueue("echo", {"n": 7}, key="7")
    elif way == "bulk":
        await app.enqueue_many("echo", [{"n": 7}], keys=["7"])
    else:
        async with app.transaction():
            await app.enqueue("echo", {"n": 7}, key="7")


async def _stored(dsn: str) -> set[int]:
    owner = await asyncpg.connect(dsn)
    rows = await owner.fetch("select (payload->>'n')::integer from penstock.jobs")
    await owner.close()
    return {row[0] for row in rows}


async def _all_done(dsn: str) -> None:
    owner = await asyncpg.connect(dsn)
    while await owner.fetchval("select exists (select from penstock.jobs where finished_at is null)"):
        await owner.execute("select pg_sleep(0.05)")
    assert await owner.fetchval("select count(*) from penstock.jobs where status <> 'completed'") == 0
    await owner.close()
