"""A server that can write no more."""

from __future__ import annotations

import asyncio
import random
import resource
from collections import Counter
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest

from penstock import Penstock
from penstock.store import connect

if TYPE_CHECKING:
    from tests.support.servers import PrivateServer

ROOM = 2 * 1024 * 1024  # bytes that a file may hold, where a segment of the log holds eight times as many


@pytest.mark.contract("D-84")
async def test_work_that_was_acknowledged_survives_a_log_that_is_full(server: PrivateServer) -> None:
    """Fault 32, by a limit on the size of files: the server takes it for a full disk, and panics."""
    ran: Counter[int] = Counter()
    acknowledged: list[int] = []
    text = random.Random(1).randbytes(20_000).hex()  # noqa: S311 - nothing that can be packed
    await asyncio.to_thread(start_on_a_small_disk, server)
    async with Penstock(server.dsn, poll_seconds=1) as app:

        @app.job("echo")
        async def echo(job: Any, args: dict[str, int]) -> None:
            ran[args["n"]] += 1

        worker = app.worker(dsn=server.dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        async with asyncio.timeout(90):
            refused = 0
            for n in range(200):
                try:
                    await app.enqueue("echo", {"n": n, "text": text}, key=str(n))
                except connect.AWAY:
                    refused += 1
                    break
                acknowledged.append(n)
            await asyncio.to_thread(make_room, server)
            await app.enqueue("echo", {"n": 1000}, key="after")
            await all_done(server.dsn)
        worker.stop()
        await task
    assert acknowledged
    assert refused == 1, "the disk was not full"
    assert {*acknowledged, 1000} <= ran.keys()


def start_on_a_small_disk(server: PrivateServer) -> None:
    """Begin a segment of the log and start the server anew; none of its processes may write far into a file."""
    with psycopg.connect(server.superuser_dsn, autocommit=True) as owner:
        owner.execute("select pg_switch_wal()")
    server.stop()
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, most))  # inherited
    try:
        server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def make_room(server: PrivateServer) -> None:
    """End what is left of the server, whose limit goes with it, and start it again."""
    server.stop()
    server.start()


async def all_done(dsn: str) -> None:
    """Wait until every job has ended, and none of them badly."""
    owner = await asyncpg.connect(dsn)
    while await owner.fetchval("select exists (select from penstock.jobs where finished_at is null)"):
        await owner.execute("select pg_sleep(0.05)")
    assert await owner.fetchval("select count(*) from penstock.jobs where status <> 'completed'") == 0
    await owner.close()
