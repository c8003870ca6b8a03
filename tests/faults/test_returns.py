"""A server that comes back, or another one that takes over: it is found at once, and no job waits for the poll."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest

from penstock import Penstock
from penstock.contract.errors import DatabaseUnavailable
from penstock.engine.listener import Listener
from penstock.store import claims, connect, hosts, migrate, workers
from penstock.store.doctor import plain_connection
from tests.support.proxy import Proxy
from tests.support.replicas import Pair, replicated

if TYPE_CHECKING:
    from penstock.contract.claims import Claim
    from penstock.engine.worker import Worker
    from tests.support.servers import PrivateServer

LISTENS = (
    "select count(*) from pg_stat_activity where application_name = 'penstock listener' "
    "and (query ilike 'listen%' or query ilike '%pg_listening_channels%')"
)


@dataclass
class Echo:
    """An application and its worker, whose poll is half a minute away."""

    app: Penstock
    worker: Worker
    done: asyncio.Queue[int]

    async def answered(self, n: int) -> float:
        """Enqueue, and wait until it has run; returns the seconds in between."""
        while True:
            try:
                await self.app.enqueue("echo", {"n": n}, key=str(n))
            except connect.AWAY:
                continue
            break
        put = time.monotonic()
        while await self.done.get() != n:
            pass
        return time.monotonic() - put

    async def until_tried(self, tries: int) -> None:
        """Until the listener has tried so often in vain."""
        before = len(self.worker.listener.delays)
        while len(self.worker.listener.delays) < before + tries:  # noqa: ASYNC110 - nobody else wants to know
            await asyncio.sleep(0.02)


@asynccontextmanager
async def echoing(dsn: str, **settings: Any) -> AsyncIterator[Echo]:
    done: asyncio.Queue[int] = asyncio.Queue()
    async with Penstock(dsn, poll_seconds=30, **settings) as app:

        @app.job("echo")
        async def echo(job: Any, args: dict[str, int]) -> None:
            done.put_nowait(args["n"])

        worker = app.worker(dsn=dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        yield Echo(app, worker, done)
        worker.stop()
        await task


@pytest.fixture
def pair(server: PrivateServer) -> Iterator[Pair]:
    made = replicated(server)
    yield made
    made.clear_away()


@pytest.fixture
def doors(pair: Pair) -> Iterator[tuple[Proxy, Proxy]]:
    """A port of the standby and one of the primary, in this order."""
    with Proxy(pair.replica.dsn, tcp=True) as standby, Proxy(pair.primary.dsn, tcp=True) as primary:
        yield standby, primary


@pytest.fixture
def either(doors: tuple[Proxy, Proxy]) -> str:
    """A DSN that names both, the standby first."""
    return _naming(*(door.port for door in doors))


def _naming(*ports: int, query: str = "target_session_attrs=read-write") -> str:
    places = ",".join(f"127.0.0.1:{port}" for port in ports)
    return f"postgresql://penstock:hunter2@{places}/penstock?sslmode=disable&{query}"


@pytest.mark.contract("D-86", "C-29", "D-85")
async def test_a_server_that_was_away_for_long_is_listened_to_within_two_seconds(server: PrivateServer) -> None:
    async with echoing(server.dsn) as echo, asyncio.timeout(60):
        await echo.answered(0)
        await asyncio.to_thread(server.stop)
        await echo.until_tried(8)  # by then the pauses had grown to half a minute
        await asyncio.to_thread(server.start)
        back = time.monotonic()
        owner = await asyncpg.connect(server.dsn)
        while not await owner.fetchval(LISTENS):
            await owner.execute("select pg_sleep(0.01)")
        heard = time.monotonic() - back
        await owner.close()
        waits = [await echo.answered(n) for n in range(1, 20)]
    assert heard < 2
    assert max(waits) < 2


@pytest.mark.contract("D-84", "C-29")
async def test_a_job_enqueued_after_a_failover_does_not_wait_for_the_poll(pair: Pair) -> None:
    """The address leads to a standby first, which is promoted a while later."""
    async with echoing(pair.dsn) as echo, asyncio.timeout(60):
        await echo.answered(0)
        await asyncio.to_thread(pair.primary.kill)
        await echo.until_tried(3)
        pair._lead_to(pair.replica)
        await echo.until_tried(3)
        await asyncio.to_thread(_promote, pair)
        waits = [await echo.answered(n) for n in range(1, 20)]
    assert max(waits) < 2


@pytest.mark.contract("D-84", "C-29")
async def test_a_worker_given_both_servers_finds_the_primary_and_the_one_that_takes_over(
    pair: Pair, either: str
) -> None:
    async with echoing(either) as echo, asyncio.timeout(60):
        await echo.answered(0)
        await asyncio.to_thread(pair.primary.kill)
        await echo.until_tried(2)
        await asyncio.to_thread(_promote, pair)
        waits = [await echo.answered(n) for n in range(1, 20)]
        async with echo.app.transaction():
            await echo.app.enqueue("echo", {"n": 20})
        assert await echo.done.get() == 20
        await asyncio.to_thread(echo.app.enqueue_sync, "echo", {"n": 21})
        assert await echo.done.get() == 21
    assert max(waits) < 2


@pytest.mark.contract("C-29")
async def test_every_way_to_the_database_takes_a_dsn_that_names_several_servers(
    pair: Pair, either: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asyncio.timeout(60):
        for way in (connect.connect, plain_connection):
            opened = await way(either)
            assert await opened.fetchval("select not pg_is_in_recovery()")
            await opened.close()
        pool = await connect.create_pool(either, size=1, answer_within=5)
        assert await pool.fetchval("select not pg_is_in_recovery()")
        await pool.close()
        assert all(state.up_to_date for state in await migrate.states(either))
        await asyncio.to_thread(migrate.upgrade, either)
        standby = await connect.connect(either.replace("read-write", "standby"))
        assert await standby.fetchval("select pg_is_in_recovery()")
        await standby.close()
        monkeypatch.setenv("PENSTOCK_DSN", either)
        async with Penstock() as app:
            assert app.settings.dsn == either
            assert "hunter2" not in (app.settings.shown_dsn or "")


async def test_when_no_server_takes_writes_that_is_what_is_said(pair: Pair, either: str) -> None:
    await asyncio.to_thread(pair.primary.kill)
    with pytest.raises(DatabaseUnavailable, match="none is what target_session_attrs asks for") as raised:
        await connect.connect(either)
    assert "hunter2" not in str(raised.value)
    assert isinstance(raised.value, connect.AWAY)


@pytest.mark.contract("C-29", "D-84")
async def test_a_server_that_keeps_silent_does_not_hide_the_next_one(
    server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is switched off answers nothing; the driver by itself would wait for it until its time is up."""
    monkeypatch.setattr(hosts, "SILENCE", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent, Proxy(server.dsn, tcp=True) as door:
        both = _naming(silent.getsockname()[1], door.port)
        with pytest.raises(TimeoutError):
            await asyncpg.connect(both, timeout=1)
        connection = await hosts.opened(both, timeout=5)
        assert await connection.fetchval("select 1") == 1
        await connection.close()


async def test_a_login_that_is_refused_is_said_at_once(server: PrivateServer) -> None:
    with Proxy(server.dsn, tcp=True) as first, Proxy(server.dsn, tcp=True) as second:
        dsn = _naming(first.port, second.port).replace("/penstock?", "/nowhere?")
        with pytest.raises(DatabaseUnavailable, match="there is no such database"):
            await connect.connect(dsn)


@pytest.mark.contract("C-50")
async def test_whatever_a_worker_asks_of_a_standby_it_waits_out(pair: Pair) -> None:
    claim = await _a_claim(pair.dsn)
    asks: dict[str, Any] = {
        "take": lambda db: claims.take(
            db, ["t"], [timedelta(minutes=5)], [claims.START], limit=1, worker="w", run=uuid4()
        ),
        "take_gated": lambda db: claims.take_gated(db, "t", timedelta(minutes=5), limit=1, worker="w", run=uuid4()),
        "promote": lambda db: claims.promote(db, ["t"]),
        "complete": lambda db: claims.complete(db, "w", [claim]),
        "cancel": lambda db: claims.cancel(db, "w", claim, "note"),
        "renew": lambda db: claims.renew(db, "w", [(claim.job_id, 1, timedelta(minutes=5))]),
        "reap": claims.reap,
        "orphans": lambda db: claims.release_orphans(db, "w", [], younger=timedelta(minutes=10)),
        "beat": lambda db: workers.beat(
            db, workers.Identity("w", uuid4(), "h", 1, "0", None), running=0, rss_bytes=None
        ),
        "listen": lambda db: db.add_listener("c", lambda *_: None),
        "notify": lambda db: db.execute("select pg_notify('c', '')"),
    }
    standby = await connect.connect(pair.replica.dsn)
    answers = {name: await _error(ask(standby)) for name, ask in asks.items()}
    assert {name: error for name, error in answers.items() if not isinstance(error, connect.AWAY)} == {}
    await standby.close()


@pytest.mark.contract("C-29", "D-87")
async def test_a_worker_outlives_a_server_that_takes_no_writes_for_a_while(server: PrivateServer) -> None:
    """Such as one whose disk was full: sessions stay, statements are refused. Two seconds used to make a ghost."""
    async with echoing(server.dsn) as echo, asyncio.timeout(60):
        await echo.answered(0)
        await asyncio.to_thread(_take_writes, server, allowed=False)
        beat = echo.worker.heartbeat
        beat._next_beat = 0.0
        beat._wake.set()
        echo.worker._on_restored()
        owner = await asyncpg.connect(server.dsn)
        while not echo.worker._orphans_possible:  # it has met the refusal
            await owner.execute("select pg_sleep(0.02)")
        await owner.close()
        await asyncio.to_thread(_take_writes, server, allowed=True)
        assert await echo.answered(1) < 3
        assert beat._thread.is_alive()


@pytest.mark.contract("C-29")
@pytest.mark.parametrize("options", [{"answer_within": 5}, {"writes": True}, {"reset": True}], ids=str)
async def test_a_pool_that_writes_keeps_no_connection_to_a_server_that_does_not(
    dsn: str, options: dict[str, Any]
) -> None:
    pool = await connect.create_pool(dsn, size=1, **options)
    first = await pool.fetchval("select pg_backend_pid()")
    assert await pool.fetchval("select pg_backend_pid()") == first
    async with pool.acquire() as connection:
        await connection.execute("set default_transaction_read_only = on")
    again = await pool.fetchval("select pg_backend_pid()")
    assert (again == first) is ("reset" in options)  # a handler's own setting is undone, and the connection good again
    await pool.close()


@pytest.mark.contract("D-86", "C-29")
async def test_a_listener_that_fell_silent_is_asked_as_soon_as_the_worker_meets_an_absence(
    dsn: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own probe would come ten seconds later."""
    defaults = Listener.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "patience", 0.3)
    monkeypatch.setitem(defaults, "probe", 60.0)
    async with echoing(dsn, listen_dsn=proxy.dsn) as echo, asyncio.timeout(20):
        await echo.answered(0)
        proxy.freeze()
        take, cut = claims.take, asyncio.Event()

        async def lost_once(*arguments: Any, **options: Any) -> Any:
            if not cut.is_set():
                cut.set()
                raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
            return await take(*arguments, **options)

        monkeypatch.setattr(claims, "take", lost_once)
        echo.worker._on_timer()
        await cut.wait()
        await asyncio.gather(*(echo.answered(n) for n in range(1, 4)))
        assert await echo.answered(4) < 5


async def _error(work: Any) -> Exception | None:
    try:
        await work
    except Exception as error:
        return error
    return None


def _promote(pair: Pair) -> None:
    with psycopg.connect(pair.replica.superuser_dsn, autocommit=True) as connection:
        connection.execute("select pg_promote()")


def _take_writes(server: PrivateServer, *, allowed: bool) -> None:
    with psycopg.connect(server.superuser_dsn, autocommit=True) as connection:
        connection.execute("set default_transaction_read_only = off")
        connection.execute(f"alter system set default_transaction_read_only = {'off' if allowed else 'on'}")
        connection.execute("select pg_reload_conf()")


async def _a_claim(dsn: str) -> Claim:
    async with Penstock(dsn) as app:
        app.job("t")(_nothing)
        await app.enqueue("t")
        rows = await claims.take(
            app.pool, ["t"], [timedelta(minutes=5)], [claims.START], limit=1, worker="w", run=uuid4()
        )
    return rows[0]


async def _nothing() -> None:
    """Done."""
