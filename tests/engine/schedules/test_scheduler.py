"""The scheduler process: it sleeps until it is needed, hears of changes, and survives its database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Job, JobType, Penstock
from penstock.contract.contract_types import complaint_rewrite
from penstock.contract.errors import RunRefused
from penstock.engine.scheduler import Scheduler
from penstock.store import schedules as store
from tests.engine.schedules.conftest import Station

NIGHT = datetime(2027, 5, 3, 1, 30, tzinfo=UTC)


@asynccontextmanager
async def running(app: Penstock, **options: Any) -> AsyncIterator[Scheduler]:
    scheduler = app.scheduler(**{"insecure": True, **options})
    task = asyncio.create_task(scheduler.run())
    async with asyncio.timeout(15):
        await scheduler.ready.wait()
    try:
        yield scheduler
    finally:
        scheduler.stop()
        await task


async def test_the_scheduler_wakes_for_the_next_due_time_and_not_for_a_poll(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = station.app(poll_seconds=3600)
    ran = asyncio.Event()
    asked = 0
    claim = store.claim

    async def counted(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        return await claim(*args)

    monkeypatch.setattr(store, "claim", counted)

    @app.function("soon", every=timedelta(seconds=2))
    async def soon() -> None:
        ran.set()

    async with running(app), asyncio.timeout(10):
        await ran.wait()

    assert asked <= 4, "a turn at the start, one at the tick, one when the run is over"


async def test_a_run_that_an_operator_asks_for_starts_at_once(station: Station, role_dsn: Callable[[str], str]) -> None:
    app = station.app(poll_seconds=3600)
    ran = asyncio.Event()

    @app.function("rare", cron="0 4 1 1 *")
    async def rare() -> None:
        ran.set()

    operator = await asyncpg.connect(role_dsn("penstock_operator"))
    async with running(app, dsn=role_dsn("penstock_worker")) as scheduler, asyncio.timeout(10):
        before = await station.schedule("rare")
        await store.request(operator, "rare", "alice")
        await ran.wait()
        await scheduler.settle()
    await operator.close()

    (run,) = await station.runs()
    row = await station.schedule("rare")
    assert (run["trigger"], run["due_at"]) == ("admin", None)
    assert (row["requested_at"], row["next_due_at"]) == (None, before["next_due_at"])


@pytest.mark.contract("Q-47", "Q-48")
@pytest.mark.parametrize("role", ["penstock_frontend", "penstock_orchestrator", "penstock_worker"])
async def test_only_operators_ask_for_runs(station: Station, role_dsn: Callable[[str], str], role: str) -> None:
    app = station.app()
    app.function("rare", cron="0 4 1 1 *")(lambda: None)
    await station.scheduler(app)
    stranger = await asyncpg.connect(role_dsn(role))

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await store.request(stranger, "rare", "mallory")

    await stranger.close()
    assert (await station.schedule("rare"))["requested_at"] is None


async def test_a_disabled_schedule_can_still_be_asked_for(station: Station) -> None:
    app = station.app()
    ran: list[int] = []
    app.function("rare", cron="0 4 * * *")(lambda: ran.append(1))
    await station.set_clock(NIGHT)
    scheduler = await station.scheduler(app)
    await store.switch(station.owner, "rare", enabled=False)
    await station.pass_time(days=2)

    await store.request(station.owner, "rare", "alice")
    assert await scheduler.turn() == 1
    await scheduler.settle()
    assert await scheduler.turn() == 0

    assert ran == [1]
    row = await station.schedule("rare")
    assert (row["last_due_at"], row["missed_count"]) == (None, 0)


async def test_asking_for_a_schedule_that_enqueues_puts_one_job_in(station: Station) -> None:
    app = station.app()
    app.job("report")(lambda: None)
    app.schedule("monthly", "report", {"n": 1}, cron="0 0 1 * *")
    scheduler = await station.scheduler(app)

    await store.request(station.owner, "monthly", "alice")
    for _ in range(2):
        await scheduler.turn()
        await scheduler.settle()

    (job,) = await station.jobs()
    assert (job["job_type"], job["payload"]) == ("report", '{"n": 1}')


@pytest.mark.contract("C-23", "C-57", "Q-50", "Q-82")
async def test_scheduled_jobs_run_in_the_scheduler_and_empty_ticks_are_skips(station: Station) -> None:
    app = station.app()
    done: list[int] = []
    rewrite = app.types.add(JobType(complaint_rewrite(app.settings.active_profile())))

    @rewrite.stage("rewrite", args=dict)
    async def handle(_job: Job, args: dict[str, int]) -> None:
        done.append(args["n"])

    app.job_function("rewrite_batch_submitter", rewrite, every=timedelta(minutes=15))
    await station.set_clock(NIGHT)
    scheduler = await station.scheduler(app)
    for n in range(30):
        await app.enqueue(rewrite, {"n": n})

    for _ in range(3):
        await station.pass_time(minutes=15)
        await scheduler.turn()
        await scheduler.settle()
    await app.close()

    assert sorted(done) == list(range(30))
    assert [(run["trigger"], run["claimed_count"]) for run in await station.runs()] == [
        ("schedule", 25),
        ("schedule", 5),
    ]
    skips = await station.owner.fetch("select function, reason from penstock.skips")
    assert [tuple(skip) for skip in skips] == [("rewrite_batch_submitter", "no pending items")]
    row = await station.schedule("rewrite_batch_submitter")
    assert (row["last_due_at"], row["claimed_by"]) == (NIGHT + timedelta(minutes=45), None)


async def test_runs_that_start_at_one_moment_have_names_of_their_own(station: Station) -> None:
    app = station.app(worker_name="w1")
    together = asyncio.Barrier(4)
    for n in range(4):

        @app.job(f"type{n}", dispatch="scheduled")
        async def handle() -> None:
            async with asyncio.timeout(30):
                await together.wait()

    async with app:
        await app.sync_types()
        for n in range(4):
            await app.enqueue(f"type{n}", {})
    await station.set_clock(NIGHT)
    scheduler = await station.scheduler(app)
    await station.pass_time(hours=1)

    assert await scheduler.turn() == 4
    await scheduler.settle()

    jobs = await station.jobs()
    assert {job["status"] for job in jobs} == {"completed"}
    assert {job["claimed_by"] for job in jobs} == {"w1-1", "w1-2", "w1-3", "w1-4"}


async def test_the_scheduler_outlives_a_lost_connection(station: Station) -> None:
    app = station.app(poll_seconds=0.1)
    ran = asyncio.Event()
    app.function("soon", every=timedelta(seconds=1))(ran.set)

    async with running(app), asyncio.timeout(20):
        await ran.wait()
        ended = await station.owner.fetchval(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity "
            "where datname = current_database() and application_name like 'penstock%'"
        )
        assert ended >= 1
        ran.clear()
        await ran.wait()


async def test_a_stop_waits_for_what_runs_and_then_halts_it(station: Station) -> None:
    app = Penstock(station.dsn, grace_seconds=0.2)
    app.functions.housekeeping = ()
    started = asyncio.Event()

    @app.function("endless", every=timedelta(seconds=1))
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(15):
        async with running(app):
            await started.wait()

    (run,) = await station.runs()
    assert run["finished_at"] is not None
    assert (await station.schedule("endless"))["claimed_by"] is None


async def test_jobs_of_a_run_that_is_stopped_go_back_without_an_attempt(station: Station) -> None:
    app = Penstock(station.dsn, grace_seconds=0.1)
    app.functions.housekeeping = ()
    rewrite = app.types.add(JobType(complaint_rewrite(app.settings.active_profile())))
    started = asyncio.Event()

    @rewrite.stage("rewrite")
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    app.job_function("rewrite_worker", rewrite, every=timedelta(seconds=1))
    await app.open()
    await app.sync_types()
    await app.enqueue(rewrite, {})
    async with asyncio.timeout(20):
        async with running(app, concurrency=1):
            await started.wait()
    await app.close()

    (job,) = await station.jobs()
    assert (job["status"], job["attempt_count"], job["claimed_by"]) == ("queued", 0, None)
    (run,) = [run for run in await station.runs() if run["claimed_count"]]
    assert run["requeued_count"] == 1


@pytest.mark.parametrize("role", ["penstock_frontend", "penstock_orchestrator", "penstock_operator"])
async def test_a_login_that_may_not_work_cannot_schedule(
    station: Station, role_dsn: Callable[[str], str], role: str
) -> None:
    with pytest.raises(RunRefused, match="penstock_worker"):
        await station.app().scheduler(dsn=role_dsn(role)).run()


async def test_the_house_brings_a_reaper_and_retention(station: Station) -> None:
    app = Penstock(station.dsn)
    app.job("echo")(lambda: None)
    await app.open()
    await app.sync_types()
    job = await app.enqueue("echo", {})
    await station.owner.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'gone',"
        " claimed_at = penstock.now(), lease_expires_at = penstock.now() - interval '1 second' where job_id = $1",
        job,
    )

    assert not (await app.run_function("reaper", insecure=True)).skipped
    assert (await app.run_function("reaper", insecure=True)).skipped
    assert (await station.jobs())[0]["status"] == "queued"
    await station.owner.execute("select penstock.cancel($1, 'test', null)", job)
    await station.pass_time(days=8)
    await app.run_function("retention", insecure=True)
    await app.close()

    assert await station.jobs() == []
    records = [(run["function"], run["claimed_count"], run["finished_at"] is not None) for run in await station.runs()]
    assert records[0] == ("reaper", 1, True)
    assert records[1][0] == "retention"
