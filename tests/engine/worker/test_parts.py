"""The parts of a worker end, one at a time: each is started again, or the worker ends and says why."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from penstock.contract.claims import Caps, Trigger
from penstock.contract.errors import PartEnded
from penstock.engine import deadlines, heartbeat, listener
from penstock.engine.alerts import raise_alert
from penstock.engine.bounded import BoundedRun, TimedRun
from penstock.engine.running import Running, Stop
from penstock.engine.worker import Worker
from penstock.store import alerts, claims, schedules
from penstock.store.alerts import Alert, Severity
from penstock.telemetry import logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.engine.worker.conftest import Floor

LEASE = timedelta(seconds=0.9)


@pytest.fixture(autouse=True)
def _events_in_words(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events go to `logging`, whatever a test before this one in the same process has set up."""
    monkeypatch.setattr(logs, "_output", None)
    monkeypatch.setattr(logs, "_their_structlog", lambda: None)
    caplog.set_level(logging.DEBUG, logger="penstock")


class Bug(Exception):
    """Nothing that a database says."""


def raising(error: BaseException, times: int = 1_000_000) -> Any:
    """A coroutine function that raises *error* the first *times* it is called, and does nothing afterwards."""
    calls: list[object] = []

    async def raises(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        if len(calls) <= times:
            raise error

    raises.calls = calls  # type: ignore[attr-defined]
    return raises


async def end_recorder(worker: Worker, _: pytest.MonkeyPatch) -> None:
    assert worker.recorder._task is not None
    worker.recorder._task.cancel()


async def end_recorder_with_a_bug(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.recorder, "flush", raising(Bug()))
    worker.recorder._some.set()


async def end_plan(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "next_wake", raising(Bug()))
    worker._plan_sleep(soon=True)


async def end_heartbeat(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.heartbeat, "_round", raising(SystemExit(3)))
    worker.heartbeat._wake.set()


async def end_heartbeat_with_a_bug(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "RETRY", 0.01)
    monkeypatch.setattr(worker.heartbeat, "_renew_due", raising(Bug()))
    worker.heartbeat._wake.set()


ENDS = {
    "recorder": (end_recorder, PartEnded),
    "recorder, bug": (end_recorder_with_a_bug, Bug),
    "plan": (end_plan, Bug),
    "heartbeat": (end_heartbeat, PartEnded),
    "heartbeat, bug": (end_heartbeat_with_a_bug, Bug),
}


@pytest.mark.contract("C-48", "D-87")
@pytest.mark.parametrize("part", ENDS)
async def test_a_worker_that_has_lost_a_part_ends_and_says_which(
    floor: Floor, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    end, error = ENDS[part]
    floor.app.job("echo")(nothing)
    worker = floor.app.worker(dsn=floor.dsn, insecure=True)
    working = asyncio.create_task(worker.run())
    await worker.ready.wait()
    await end(worker, monkeypatch)
    async with asyncio.timeout(20):
        with pytest.raises(error):
            await working
    assert f"part_ended what={part.partition(',')[0]}" in caplog.text


@pytest.mark.contract("C-48")
async def test_a_bounded_run_that_has_lost_a_part_raises_what_ended_it(floor: Floor) -> None:
    entered = asyncio.Event()

    @floor.app.job("held")
    async def held() -> None:
        entered.set()
        await asyncio.Event().wait()

    await floor.app.enqueue("held")
    run = TimedRun("test", Trigger.ADMIN, Caps(10, timedelta(minutes=1)))
    types = [floor.app.types.get("held")]
    crew = BoundedRun(floor.dsn, types, floor.app.settings, run, overflow=timedelta(seconds=60), insecure=True)
    await crew.open()
    async with asyncio.timeout(20):
        working = asyncio.create_task(crew.work())
        await entered.wait()
        assert crew.recorder._task is not None
        crew.recorder._task.cancel()
        with pytest.raises(PartEnded, match="recorder"):
            await working
        await crew.close()


@pytest.mark.contract("D-86", "C-29")
async def test_a_listener_that_has_ended_listens_again(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "FIRST_DELAY", 0.01)
    done: asyncio.Queue[int] = asyncio.Queue()

    @floor.app.job("echo")
    async def echo(job: Any, args: dict[str, int]) -> None:
        done.put_nowait(args["n"])

    async with floor.working() as worker, asyncio.timeout(20):
        first = worker.listener._task
        assert first is not None
        first.cancel()
        await floor.app.enqueue("echo", {"n": 1})
        assert await done.get() == 1
        await floor.until(
            "count(*) = 1 from pg_stat_activity where application_name = 'penstock listener' "
            "and datname = current_database() and (query ilike 'listen%' or query ilike '%pg_listening_channels%')"
        )
        assert worker.listener._task is not first
        await floor.app.enqueue("echo", {"n": 2})
        assert await done.get() == 2
        await worker.settle()


@pytest.mark.contract("R-14")
async def test_an_announcer_that_has_ended_announces_the_next_alert(
    floor: Floor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    look = alerts.next_unannounced
    looks = 0

    @asynccontextmanager
    async def broken_once(*arguments: Any) -> AsyncIterator[Any]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise Bug
        async with look(*arguments) as held:
            yield held

    @floor.app.on_alert
    def hear(alert: Alert) -> None:
        heard.put_nowait(alert.kind)

    floor.app.job("echo")(nothing)
    monkeypatch.setattr(alerts, "next_unannounced", broken_once)
    async with floor.working(), asyncio.timeout(20):
        while looks == 0:
            await floor.owner.execute("select pg_sleep(0.005)")
        await raise_alert(floor.owner, "odd", Severity.ALERT, {})
        assert await heard.get() == "odd"
    assert "part_ended what=announcer" in caplog.text


@pytest.mark.contract("C-63")
async def test_one_handler_that_cannot_be_given_up_does_not_end_the_watch_over_the_others(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: asyncio.Queue[int] = asyncio.Queue()

    @floor.app.job("slow", timeout=timedelta(milliseconds=100), attempts=1)
    async def slow(job: Any, args: dict[str, int]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.put_nowait(args["n"])

    halt = Running.halt

    def broken_once(self: Running, why: Stop) -> None:
        monkeypatch.setattr(Running, "halt", halt)
        raise Bug

    monkeypatch.setattr(deadlines, "UNHEARD", 0.05)
    monkeypatch.setattr(Running, "halt", broken_once)
    async with floor.working() as worker, asyncio.timeout(20):
        await floor.app.enqueue_many("slow", [{"n": n} for n in range(3)])
        assert sorted([await stopped.get() for _ in range(3)]) == [0, 1, 2]
        await worker.settle()


@pytest.mark.contract("D-87", "C-48")
@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ReadOnlySQLTransactionError("cannot execute UPDATE in a read-only transaction"),
        asyncpg.InsufficientPrivilegeError("permission denied"),
        asyncpg.UndefinedTableError("not there"),
        asyncpg.InternalServerError("cache lookup failed"),
        Bug(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_heartbeat_goes_on_after_any_error_of_the_database(
    floor: Floor, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One error used to end the thread and leave a worker that looks alive and renews nothing."""
    release = asyncio.Event()

    @floor.app.job("slow", lease=LEASE)
    async def slow() -> None:
        await release.wait()

    renew, failed = claims.renew, asyncio.Event()
    loop = asyncio.get_running_loop()
    calls: list[int] = []

    async def broken(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) <= 2:
            raise error
        loop.call_soon_threadsafe(failed.set)
        return await renew(*arguments)

    monkeypatch.setattr(heartbeat, "RETRY", 0.02)
    monkeypatch.setattr(claims, "renew", broken)
    job_id = await floor.app.enqueue("slow")
    async with floor.working() as worker, asyncio.timeout(20):
        await failed.wait()
        await floor.until("lease_expires_at > claimed_at + $2 from penstock.jobs where job_id = $1", job_id, LEASE)
        release.set()
        await worker.settle()
    row = await floor.job(job_id)
    assert (row["status"], row["claim_seq"], row["reclaim_count"]) == ("completed", 1, 0)


@pytest.mark.contract("C-31")
async def test_a_heartbeat_that_is_refused_for_long_gives_up_what_has_surely_expired(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = asyncio.Event()

    @floor.app.job("slow", lease=LEASE)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    refused = raising(asyncpg.ReadOnlySQLTransactionError("cannot execute UPDATE in a read-only transaction"))
    monkeypatch.setattr(claims, "renew", refused)
    await floor.app.enqueue("slow")
    async with floor.working() as worker, asyncio.timeout(20):
        await stopped.wait()
        assert worker.heartbeat._thread.is_alive()


@pytest.mark.contract("C-48")
async def test_a_scheduler_whose_leases_nobody_renews_ends_and_says_so(
    floor: Floor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entered = asyncio.Event()

    @floor.app.function("long", every=timedelta(hours=1))
    async def long() -> None:
        entered.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(schedules, "renew", raising(Bug()))
    scheduler = floor.app.scheduler(dsn=floor.dsn, insecure=True, lease=timedelta(seconds=0.3))
    running = asyncio.create_task(scheduler.run())
    await scheduler.ready.wait()
    await floor.pass_time(hours=2)
    await floor.owner.execute("select pg_notify('penstock_control', '{\"schedules\": true}')")
    async with asyncio.timeout(30):
        await entered.wait()
        with pytest.raises(Bug):
            await running
    assert "part_ended what=schedule leases" in caplog.text.replace("'", "").replace('"', "")


async def nothing() -> None:
    """Done."""
