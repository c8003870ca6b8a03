"""Connections that fall silent in the middle of a statement: no data, no error, no end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.store import connect, silence

if TYPE_CHECKING:
    from penstock.engine.worker import Worker
    from tests.engine.worker.conftest import Floor
    from tests.support.proxy import Proxy

SOON = 0.5


@dataclass
class Behind:
    """A worker whose pool leads through the proxy and whose pokes do not."""

    app: Penstock
    worker: Worker
    owner: asyncpg.Connection[Any]
    ran: list[int]
    entered: asyncio.Event
    release: asyncio.Event

    async def at_rest(self) -> None:
        """Wait until no statement is under way: the next one takes a connection that is there.

        One is always out: the connection that the worker keeps for its claims.
        """
        pool, owner = self.worker.place.pool, self.owner
        while pool.get_idle_size() < pool.get_size() - 1:
            await owner.execute("select pg_sleep(0.005)")


@pytest.fixture
async def behind(dsn: str, proxy: Proxy, floor: Floor, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Behind]:
    monkeypatch.setattr(silence, "ANSWER_WITHIN", SOON)
    ran: list[int] = []
    entered, release = asyncio.Event(), asyncio.Event()
    async with Penstock(dsn, listen_dsn=dsn, grace_seconds=5) as app:

        @app.job("echo")
        async def echo(job: Any, args: dict[str, int]) -> None:
            ran.append(args["n"])
            entered.set()
            await release.wait()

        worker = app.worker(dsn=proxy.dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        yield Behind(app, worker, floor.owner, ran, entered, release)
        proxy.cut()  # a worker that is still waiting could not be stopped
        worker.stop()
        await task


@pytest.mark.parametrize("silent", ["freeze", "deafen"])
@pytest.mark.contract("C-31", "A-75")
async def test_a_completion_without_an_answer_is_sent_again_and_counts_once(
    behind: Behind, proxy: Proxy, floor: Floor, silent: str
) -> None:
    """Frozen, it never arrives; deaf, it has committed and nobody says so. The worker cannot tell the two apart."""
    job_id = await behind.app.enqueue("echo", {"n": 1})
    async with asyncio.timeout(15):
        await behind.entered.wait()
        await behind.at_rest()
        getattr(proxy, silent)()
        behind.release.set()
        await behind.worker.settle()
    await floor.until("sum(succeeded_count) = 1 and sum(lost_count) = 0 from penstock.runs")
    row = await floor.job(job_id)
    assert (behind.ran, row["status"], row["claim_seq"], row["attempt_count"]) == ([1], "completed", 1, 0)


@pytest.mark.parametrize("silent", ["freeze", "deafen"])
@pytest.mark.contract("D-84")
async def test_a_claim_without_an_answer_is_made_again(behind: Behind, proxy: Proxy, floor: Floor, silent: str) -> None:
    """Deaf, the job is claimed and nobody knows: the worker finds it under its own name."""
    behind.release.set()
    await behind.at_rest()
    getattr(proxy, silent)()
    job_id = await behind.app.enqueue("echo", {"n": 1})
    await floor.until("status = 'completed' from penstock.jobs where job_id = $1", job_id, seconds=30)
    assert behind.ran == [1]
    assert (await floor.job(job_id))["attempt_count"] == 0


async def test_a_statement_whose_client_has_given_up_does_not_stay_behind_on_the_server(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a row that somebody locks for an hour would gather sixty tries, each with a connection of its own."""
    monkeypatch.setattr(silence, "NOTICE", "50ms")
    pool = await connect.create_pool(floor.dsn, size=1, name="patient", answer_within=0.2)
    holder = await asyncpg.connect(floor.dsn)
    async with holder.transaction():
        await holder.execute("lock table penstock.jobs")
        for _ in range(3):
            with pytest.raises(connect.AWAY):
                await pool.fetchval("select count(*) from penstock.jobs")
        await floor.until(
            "not exists (select from pg_stat_activity where application_name = 'patient' and state = 'active')"
        )
    assert await pool.fetchval("select count(*) from penstock.jobs") == 0
    await pool.close()
    await holder.close()


async def test_a_connection_that_comes_back_in_time_is_kept(floor: Floor) -> None:
    pool = await connect.create_pool(floor.dsn, size=1, answer_within=0.3)
    pid = await pool.fetchval("select pg_backend_pid()")
    for _ in range(4):
        await pool.fetchval("select pg_sleep(0.1)")
    assert await pool.fetchval("select pg_backend_pid()") == pid
    await pool.close()


async def test_the_kernel_watches_every_connection_over_tcp(tcp_proxy: Proxy) -> None:
    pool = await connect.create_pool(tcp_proxy.dsn, size=1)
    async with pool.acquire() as pooled:
        assert options(pooled) == {name: value for name, value in silence.TCP_OPTIONS.items() if hasattr(socket, name)}
    await pool.close()
    single = await connect.connect(tcp_proxy.dsn)
    assert options(single)["TCP_KEEPIDLE"] == silence.TCP_OPTIONS["TCP_KEEPIDLE"]
    await single.close()


def options(connection: asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any]) -> dict[str, int]:
    """What the kernel was told about the connection's socket."""
    end = connection._transport.get_extra_info("socket")  # type: ignore[union-attr]  # the driver tells it to nobody
    assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    names = [name for name in silence.TCP_OPTIONS if hasattr(socket, name)]
    return {name: end.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names}
