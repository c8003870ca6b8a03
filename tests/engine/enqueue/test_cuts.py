"""A connection that is cut leaves a COMMIT in doubt; the doubt is settled and a job is never lost or doubled."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import asyncpg
import pytest

from penstock import Penstock
from penstock.contract.errors import DatabaseUnavailable
from penstock.engine import producer
from penstock.engine.drafts import SET_JOBS
from tests.engine.enqueue.conftest import Office, declare_types, until_waiting
from tests.support.proxy import Proxy

NOOP = ("penstock_jobs", '{"job_type": "noop"}')


@pytest.fixture
def proxy(office: Office) -> Iterator[Proxy]:
    with Proxy(office.dsn) as proxy:
        yield proxy


@pytest.fixture
async def far(office: Office, proxy: Proxy) -> AsyncIterator[Penstock]:
    """An application behind the proxy, with a warm connection."""
    async with declare_types(Penstock(proxy.dsn)) as app:
        await app.enqueue("other", {})
        yield app


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.contract("C-65", "C-48")
async def test_an_enqueue_that_was_cut_off_goes_in_once(
    office: Office, proxy: Proxy, far: Penstock, key: str | None, side: str
) -> None:
    cut = proxy.cut_before if side == "before" else proxy.cut_after
    cut(b'"n":77')

    job_id = await far.enqueue("noop", {"n": 77}, key=key)

    assert proxy.cuts == 1
    assert await office.count("noop") == 1
    assert await office.payload(job_id) == {"n": 77}
    await far._producer.pokes.flush()  # type: ignore[union-attr]  # it is open
    assert NOOP in await office.ear.all(), "the second try pokes for what the first one wrote"


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(("side", "words"), [("before", b"COMMIT;"), ("after", b"COMMIT;"), ("before", b'"n":1234')])
@pytest.mark.contract("C-65")
async def test_a_bulk_that_was_cut_off_goes_in_once(
    office: Office, proxy: Proxy, far: Penstock, side: str, words: bytes, keyed: bool
) -> None:
    cut = proxy.cut_before if side == "before" else proxy.cut_after
    cut(words)
    count = SET_JOBS + 500

    ids = await far.enqueue_many(
        "noop", [{"n": n} for n in range(count)], keys=[f"k{n}" for n in range(count)] if keyed else None
    )

    assert proxy.cuts == 1
    rows = await office.owner.fetch("select job_id from penstock.jobs where job_type = 'noop' order by payload->'n'")
    assert [row[0] for row in rows] == ids


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.contract("C-65", "D-08")
async def test_a_caller_whose_commit_was_cut_off_settles_it_by_the_key(
    office: Office, proxy: Proxy, far: Penstock, side: str
) -> None:
    """The two cuts look alike to the caller, and one way out is right for both: the same again."""
    await office.owner.execute("create table items (item_id integer primary key)")
    cut = proxy.cut_before if side == "before" else proxy.cut_after
    caller = await asyncpg.connect(proxy.dsn)
    transaction = caller.transaction()
    await transaction.start()
    await caller.execute("insert into items values (1)")
    first = await far.enqueue("noop", {"n": 1}, key="item-1", connection=caller)
    cut(b"COMMIT;")
    with pytest.raises((asyncpg.PostgresConnectionError, ConnectionError)):
        await transaction.commit()
    caller.terminate()

    again = await asyncpg.connect(proxy.dsn)
    async with again.transaction():
        await again.execute("insert into items values (1) on conflict do nothing")
        second = await far.enqueue("noop", {"n": 1}, key="item-1", connection=again)
    await again.close()

    assert (second == first) == (side == "after")
    assert await office.count("noop") == 1
    assert await office.owner.fetchval("select count(*) from items") == 1


@pytest.mark.contract("C-65")
async def test_a_server_that_stays_away_leaves_the_caller_with_a_doubt_and_the_way_out(
    office: Office, proxy: Proxy, far: Penstock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "PAUSES", (0, 0))
    monkeypatch.setattr(producer, "IN_DOUBT", (0, 0))
    proxy.cut_all()

    with pytest.raises(DatabaseUnavailable, match="enqueue again with the same key"):
        await far.enqueue("noop", {"n": 1}, key="k")
    with pytest.raises(DatabaseUnavailable, match="enqueue again with the same key"):
        await far.enqueue_many("noop", [{"n": 1}])

    await office.app.enqueue("noop", {"n": 1}, key="k")
    assert await office.count("noop") == 1


async def test_sessions_that_the_server_ended_are_replaced_without_a_word(office: Office) -> None:
    for _ in range(3):
        await office.app.enqueue("noop", {"n": 1})
        await office.owner.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and application_name = 'penstock'"
        )
    await office.app.enqueue_many("noop", [{"n": 2}])

    assert await office.count("noop") == 4


async def test_a_cancelled_enqueue_gives_its_connection_back(office: Office) -> None:
    holder = await asyncpg.connect(office.dsn)
    async with office.another(pool_max=2) as app:
        for n in range(6):
            with suppress(ZeroDivisionError):
                async with holder.transaction():
                    await app.enqueue("noop", {"n": n}, key="k", connection=holder)
                    task = asyncio.create_task(app.enqueue("noop", {"n": n}, key="k"))
                    await until_waiting(office.owner)
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task
                    raise ZeroDivisionError
        async with asyncio.timeout(10):
            await app.enqueue("noop", {"n": 1})
    await holder.close()
    assert await office.count() == 1


KILLED = """
import asyncio, os, signal, sys
from penstock import Penstock

app = Penstock(sys.argv[1])

@app.job("noop")
async def noop(args: dict) -> None: ...

async def main() -> None:
    async with app.transaction() as tx:
        await tx.execute("insert into items values (1)")
        await app.enqueue("noop", {"n": 1}, key="item-1")
        if sys.argv[2] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize(("moment", "rows"), [("before", 0), ("after", 1)])
@pytest.mark.contract("D-08", "C-53")
async def test_a_caller_killed_around_its_commit_leaves_both_rows_or_none(
    office: Office, moment: str, rows: int
) -> None:
    await office.owner.execute("create table items (item_id integer primary key)")
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, office.dsn, moment, env={**os.environ, "PENSTOCK_NOTIFY": "off"}
    )
    assert await killed.wait() == -signal.SIGKILL

    async with asyncio.timeout(10):  # until the server has noticed
        while await office.owner.fetchval(
            "select exists (select from pg_stat_activity where datname = current_database() "
            "and state like 'idle in transaction%')"
        ):
            await office.owner.execute("select pg_sleep(0.005)")
    assert await office.owner.fetchval("select count(*) from items") == rows
    assert await office.count() == rows
