"""Dispatch: what starts work, how soon, and what is lost when a poke is lost (nothing)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.contract.claims import Trigger
from penstock.engine.listener import Listener
from tests.engine.worker.conftest import Floor


@pytest.mark.contract("D-78", "D-02", "D-18", "D-13")
async def test_an_enqueue_wakes_an_idle_worker_at_once(floor: Floor) -> None:
    started: asyncio.Queue[float] = asyncio.Queue()

    @floor.app.job("echo")
    async def echo(job: Any, args: Any) -> None:
        started.put_nowait(time.monotonic())

    assert floor.app.settings.poll_seconds == 30
    async with floor.working() as worker:
        await floor.until("true")
        enqueued = time.monotonic()
        job_id = await floor.app.enqueue("echo")
        async with asyncio.timeout(5):
            assert await started.get() - enqueued < 1
        await worker.settle()
    assert (await floor.job(job_id))["status"] == "completed"
    assert await floor.owner.fetchval("select count(*) from penstock.runs where trigger = 'notify'") == 1


@pytest.mark.contract("D-79", "D-03", "D-19", "D-71", "D-85")
async def test_without_any_notify_every_job_is_done_by_the_poll(dsn: str) -> None:
    done = asyncio.Event()
    async with Penstock(dsn, notify="off", poll_seconds=0.2) as app:

        @app.job("echo")
        async def echo(job: Any, args: dict[str, int]) -> None:
            if args["n"] == 4:
                done.set()

        worker = app.worker(dsn=dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        listener = await asyncpg.connect(dsn)
        heard: list[str] = []
        await listener.add_listener("penstock_jobs", lambda *_: heard.append("poke"))
        for n in range(5):
            await app.enqueue("echo", {"n": n})
        async with asyncio.timeout(10):
            await done.wait()
        await worker.settle()
        await listener.fetchval("select 1")
        worker.stop()
        await task
        await listener.close()
    assert heard == []


@pytest.mark.contract("D-43", "C-29", "D-04")
async def test_a_start_listens_first_then_drains_what_waits(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    listen = Listener.start

    async def recorded(self: Listener) -> None:
        await listen(self)
        order.append("listening")

    monkeypatch.setattr(Listener, "start", recorded)

    @floor.app.job("echo", startup_cap=100, drain_cap=10)
    async def echo(job: Any, args: Any) -> None:
        order.append("job")

    await floor.app.sync_types()
    await floor.app.enqueue_many("echo", [{"n": n} for n in range(100)])
    async with floor.working() as worker:
        await floor.until("count(*) = 100 from penstock.jobs where status = 'completed'")
        await worker.settle()
    runs = await floor.owner.fetch("select trigger, claimed_count from penstock.runs order by started_at")
    assert order[0] == "listening"
    assert order.count("job") == 100
    assert [(row["trigger"], row["claimed_count"]) for row in runs] == [("startup", 100)]


@pytest.mark.contract("D-41", "C-25")
async def test_a_drain_takes_its_cap_and_no_more(floor: Floor) -> None:
    @floor.app.job("echo", drain_cap=10)
    async def echo(job: Any, args: Any) -> None:
        """Done."""

    worker = floor.app.worker(dsn=floor.dsn, insecure=True)
    await worker._open()
    await floor.app.enqueue_many("echo", [{"n": n} for n in range(12)])

    assert [await worker.drain(), await worker.drain(), await worker.drain()] == [10, 2, 0]

    await worker._shut_down()


@pytest.mark.contract("C-25", "D-83")
async def test_a_drain_that_filled_its_cap_is_followed_at_once(floor: Floor) -> None:
    """A hundred items at ten per drain, well before the first poll."""

    @floor.app.job("echo", drain_cap=10)
    async def echo(job: Any, args: Any) -> None:
        """Done."""

    async with floor.working() as worker:
        start = time.monotonic()
        for n in range(100):
            await floor.app.enqueue("echo", {"n": n})
        await floor.until("count(*) = 100 from penstock.jobs where status = 'completed'")
        assert time.monotonic() - start < 5
        await worker.settle()
    assert await floor.owner.fetchval("select max(claimed_count) from penstock.runs") <= 10


@pytest.mark.contract("D-39", "D-40")
async def test_fifty_pokes_at_once_make_one_drain_at_a_time(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    @floor.app.job("echo")
    async def echo(job: Any, args: Any) -> None:
        """Done."""

    async with floor.working() as worker:
        claiming = most = 0
        claim = worker.fetcher._claim

        async def counted(*arguments: Any) -> Any:
            nonlocal claiming, most
            claiming += 1
            most = max(most, claiming)
            try:
                return await claim(*arguments)
            finally:
                claiming -= 1

        monkeypatch.setattr(worker.fetcher, "_claim", counted)
        await floor.app.enqueue_many("echo", [{"n": n} for n in range(50)])
        for n in range(50):
            await floor.owner.execute("select pg_notify('penstock_jobs', $1)", str(n))
            worker._on_poke("penstock_jobs", "")
        drains = [asyncio.create_task(worker.fetcher.drain(worker.groups[0], Trigger.NOTIFY)) for _ in range(50)]
        await asyncio.gather(*drains)
        await floor.until("count(*) = 50 from penstock.jobs where status = 'completed'")
        await worker.settle()
    assert most == 1


@pytest.mark.contract("D-40", "C-25")
async def test_one_slow_job_idles_no_other_slot(floor: Floor) -> None:
    release, others = asyncio.Event(), asyncio.Event()
    seen = 0

    @floor.app.job("mixed", drain_cap=1000)
    async def mixed(job: Any, args: dict[str, int]) -> None:
        nonlocal seen
        if args["n"] == 0:
            await release.wait()
            return
        seen += 1
        if seen == 20:
            others.set()

    async with floor.working(concurrency=4) as worker:
        await floor.app.enqueue("mixed", {"n": 0})
        for n in range(1, 21):
            await floor.app.enqueue("mixed", {"n": n})
        async with asyncio.timeout(10):
            await others.wait()
        release.set()
        await worker.settle()


@pytest.mark.contract("D-36", "C-28")
@pytest.mark.parametrize("payload", ["", "garbage {", '{"job_type": 7}', "[1]", '{"other": true}', "\N{SNOWMAN}"])
async def test_a_poke_with_any_payload_leads_to_a_correct_drain(floor: Floor, payload: str) -> None:
    done = asyncio.Event()

    @floor.app.job("echo")
    async def echo(job: Any, args: Any) -> None:
        done.set()

    async with floor.working() as worker:
        await floor.owner.execute("set penstock.notify = off")
        await floor.owner.fetchval("select penstock.enqueue('echo')")
        await floor.owner.execute("select pg_notify('penstock_jobs', $1)", payload)
        async with asyncio.timeout(5):
            await done.wait()
        await worker.settle()


@pytest.mark.contract("C-28", "D-34")
async def test_a_worker_listens_on_the_channels_of_its_types(floor: Floor) -> None:
    done = asyncio.Event()

    @floor.app.job("enrichment", channel="litevault_jobs")
    async def enrichment(job: Any, args: Any) -> None:
        done.set()

    async with floor.working() as worker:
        await floor.app.enqueue("enrichment")  # the poll is half a minute away: only the poke can wake it in time
        async with asyncio.timeout(5):
            await done.wait()
        await worker.settle()


@pytest.mark.contract("D-86", "C-29")
async def test_a_listener_that_was_cut_off_comes_back_and_drains(floor: Floor) -> None:
    done: asyncio.Queue[int] = asyncio.Queue()

    @floor.app.job("echo")
    async def echo(job: Any, args: dict[str, int]) -> None:
        done.put_nowait(args["n"])

    async with floor.working() as worker, asyncio.timeout(20):
        await floor.owner.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = 'penstock listener' and datname = current_database()"
        )
        await floor.until(
            "count(*) = 1 from pg_stat_activity where application_name = 'penstock listener' "
            "and datname = current_database()"
        )
        await floor.app.enqueue("echo", {"n": 1})
        assert await done.get() == 1
        await floor.app.enqueue("echo", {"n": 2})
        assert await done.get() == 2
        await worker.settle()


@pytest.mark.contract("D-86", "C-29")
async def test_reconnect_delays_double_up_to_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    restored = asyncio.Event()
    listener = Listener("postgresql://nobody@127.0.0.1:1/nowhere", ["c"], poked=lambda *_: None, restored=restored.set)
    waits: list[float] = []

    async def no_wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 7:
            raise asyncio.CancelledError

    monkeypatch.setattr("penstock.engine.listener.random.uniform", lambda _least, most: most)
    monkeypatch.setattr("penstock.engine.listener.asyncio.sleep", no_wait)
    with pytest.raises(asyncio.CancelledError):
        await listener._reconnect()
    assert waits == [0.1, 0.2, 0.4, 0.8, 1, 1, 1]


@pytest.mark.contract("D-38")
async def test_pokes_arrive_while_the_pool_is_exhausted(floor: Floor) -> None:
    heard = asyncio.Event()
    listener = Listener(floor.dsn, ["penstock_jobs"], poked=lambda *_: heard.set(), restored=lambda: None)
    await listener.start()
    held = [await floor.app.pool.acquire() for _ in range(floor.app.settings.pool_max)]
    await floor.owner.execute("select pg_notify('penstock_jobs', '')")
    async with asyncio.timeout(5):
        await heard.wait()
    for connection in held:
        await floor.app.pool.release(connection)
    await listener.stop()


@pytest.mark.contract("D-88", "D-89", "C-29")
async def test_the_listener_has_a_dsn_of_its_own(dsn: str) -> None:
    """Behind a transaction pooler LISTEN needs a direct way."""
    direct = dsn + ("&" if "?" in dsn else "?") + "application_name=ignored"
    async with Penstock(dsn, listen_dsn=direct) as app:
        app.job("echo")(_nothing)
        worker = app.worker(dsn=dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        assert worker.listener._dsn == direct
        worker.stop()
        await task


@pytest.mark.contract("D-44")
async def test_a_stopped_worker_polls_no_more(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    floor.app.job("echo")(_nothing)
    async with floor.working() as worker:
        await worker.settle()
    claims = 0

    async def spy(*_: Any) -> Any:
        nonlocal claims
        claims += 1

    monkeypatch.setattr(worker.fetcher, "_claim", spy)
    worker._on_timer()
    worker._on_poke("penstock_jobs", "")
    await floor.until("pg_sleep(0.05) is not null")
    assert claims == 0


@pytest.mark.contract("C-29")
async def test_an_idle_worker_sleeps_until_the_poll(floor: Floor) -> None:
    floor.app.job("echo")(_nothing)
    async with floor.working() as worker:
        await worker.settle()
        async with asyncio.timeout(5):
            while worker._timer is None:
                await floor.owner.fetchval("select 1")
        assert worker._timer.when() - asyncio.get_running_loop().time() > 25


@pytest.mark.contract("D-42", "D-73")
async def test_the_poll_interval_is_a_setting(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_POLL_SECONDS", "2")
    assert Penstock(dsn).settings.poll_seconds == 2
    monkeypatch.delenv("PENSTOCK_POLL_SECONDS")
    assert Penstock(dsn).settings.poll_seconds == 30


@pytest.mark.contract("D-65", "D-66")
async def test_pokes_and_polls_are_counted(floor: Floor) -> None:
    from prometheus_client import REGISTRY

    def value(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(name, labels) or 0.0

    floor.app.job("echo", channel="counted_channel")(_nothing)
    async with floor.working() as worker:
        pokes = value("job_notification_received_total", channel="counted_channel")
        polls = value("job_poll_scanned_total")
        for _ in range(3):
            await floor.owner.execute("select pg_notify('counted_channel', '')")
        await floor.until("true")
        async with asyncio.timeout(5):
            while value("job_notification_received_total", channel="counted_channel") < pokes + 3:
                await floor.owner.fetchval("select 1")
        for _ in range(2):
            worker._on_timer()
            async with asyncio.timeout(5):
                while worker._maintain:
                    await floor.owner.fetchval("select 1")
        await worker.settle()
        assert value("job_poll_scanned_total") == polls + 2


async def _nothing(job: Any, args: Any) -> None:
    """Done."""
