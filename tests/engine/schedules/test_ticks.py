"""One tick is one run, or one job, whoever is there and whoever dies."""

from __future__ import annotations

import asyncio
import os
import signal
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock
from penstock.contract.claims import Trigger
from penstock.contract.crash import CrashPoint
from penstock.engine.scheduler import LEASE, tick_of
from penstock.store import schedules as store
from tests.engine.schedules.conftest import Station
from tests.support import forks
from tests.support.processes import PATIENCE

MORNING = datetime(2027, 5, 3, 8, 7, tzinfo=UTC)


def sweeping(station: Station, ran: list[str]) -> Penstock:
    app = station.app()

    @app.function("sweep", every=timedelta(minutes=15))
    async def sweep() -> None:
        ran.append("sweep")

    return app


def enqueueing(station: Station) -> Penstock:
    app = station.app()

    @app.job("report")
    async def report() -> None: ...

    app.schedule("nightly-report", report, {"kind": "full"}, every=timedelta(hours=1))
    return app


@pytest.mark.contract("Q-44", "Q-08", "C-57")
async def test_a_function_runs_once_per_tick_at_its_fixed_cadence(station: Station) -> None:
    ran: list[str] = []
    await station.set_clock(MORNING)
    scheduler = await station.scheduler(sweeping(station, ran))

    assert await scheduler.turn() == 0, "the first tick is at 08:15"
    await station.pass_time(minutes=8)
    assert await scheduler.turn() == 1
    await scheduler.settle()
    assert await scheduler.turn() == 0

    assert ran == ["sweep"]
    (run,) = await station.runs()
    assert (run["trigger"], run["schedule"], run["due_at"]) == (
        "schedule",
        "sweep",
        MORNING.replace(minute=15),
    )
    row = await station.schedule("sweep")
    assert (row["next_due_at"], row["missed_count"]) == (MORNING.replace(minute=30), 0)
    assert (row["claimed_by"], row["lease_expires_at"]) == (None, None)


async def test_many_schedulers_run_one_tick_once(station: Station) -> None:
    ran: list[str] = []
    await station.set_clock(MORNING)
    schedulers = [await station.scheduler(sweeping(station, ran), f"s{n}") for n in range(8)]

    for tick in range(1, 6):
        await station.pass_time(minutes=15)
        await asyncio.gather(*(scheduler.turn() for scheduler in schedulers for _ in range(2)))
        await asyncio.gather(*(scheduler.settle() for scheduler in schedulers))
        assert len(ran) == tick

    due = [run["due_at"] for run in await station.runs()]
    assert len(due) == len(set(due)) == 5


async def test_many_schedulers_enqueue_one_job_per_tick(station: Station) -> None:
    await station.set_clock(MORNING)
    schedulers = [await station.scheduler(enqueueing(station), f"s{n}") for n in range(8)]

    for tick in range(1, 4):
        await station.pass_time(hours=1)
        await asyncio.gather(*(scheduler.turn() for scheduler in schedulers for _ in range(2)))
        await asyncio.gather(*(scheduler.settle() for scheduler in schedulers))
        assert len(await station.jobs()) == tick

    keys = [job["idempotency_key"] for job in await station.jobs()]
    assert keys[0] == "report:nightly-report@2027-05-03T09:00:00+00:00"
    assert len(set(keys)) == 3


async def test_one_run_makes_up_for_all_missed_ticks_and_the_rest_are_counted(station: Station) -> None:
    ran: list[str] = []
    await station.set_clock(MORNING)
    scheduler = await station.scheduler(sweeping(station, ran))

    await station.pass_time(hours=2)  # 08:15 to 10:00 are eight ticks
    await scheduler.turn()
    await scheduler.settle()
    assert await scheduler.turn() == 0

    row = await station.schedule("sweep")
    assert ran == ["sweep"]
    assert (row["last_due_at"], row["missed_count"]) == (MORNING.replace(hour=10, minute=0), 7)
    assert row["next_due_at"] == MORNING.replace(hour=10, minute=15), "reckoned from now"


async def test_a_missed_enqueue_is_made_up_for_by_one_job(station: Station) -> None:
    await station.set_clock(MORNING)
    scheduler = await station.scheduler(enqueueing(station))

    await station.pass_time(hours=50)
    await scheduler.turn()
    await scheduler.settle()

    (job,) = await station.jobs()
    assert job["idempotency_key"] == "report:nightly-report@2027-05-05T10:00:00+00:00"
    row = await station.schedule("nightly-report")
    assert (row["missed_count"], row["claimed_by"], row["lease_expires_at"]) == (49, None, None)


async def test_a_scheduler_that_lost_its_claim_begins_nothing(station: Station) -> None:
    ran: list[str] = []
    await station.set_clock(MORNING)
    app = sweeping(station, ran)
    slow, other = await station.scheduler(app, "slow"), await station.scheduler(app, "other")
    await station.pass_time(minutes=8)
    (claimed,) = await store.claim(slow._pool, "slow", ["sweep"], LEASE)

    await station.pass_time(seconds=LEASE.total_seconds() + 1)  # slow stalls past its lease
    assert await other.turn() == 1
    await other.settle()
    assert ran == ["sweep"]

    function = app.functions.get("sweep")
    dispatched = await slow.dispatcher.dispatch(function, Trigger.SCHEDULE, tick_of(dict(claimed)))
    assert dispatched.run is None
    assert ran == ["sweep"]
    assert len(await station.runs()) == 1


async def test_a_schedule_does_not_overlap_itself(station: Station) -> None:
    app = station.app()
    running, release = asyncio.Event(), asyncio.Event()
    at_once, most = 0, 0

    @app.function("slow", every=timedelta(minutes=1))
    async def slow() -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        running.set()
        await release.wait()
        at_once -= 1

    await station.set_clock(MORNING)
    first, second = await station.scheduler(app, "first"), await station.scheduler(app, "second")
    await station.pass_time(seconds=60)
    await first.turn()
    await running.wait()

    for _ in range(3):  # its ticks go by while it runs, and its lease is renewed as in the loop
        await station.pass_time(seconds=50)
        await store.renew(first._pool, list(first._tasks.values()), LEASE)
        assert await second.turn() == 0
    release.set()
    await first.settle()
    assert await second.turn() == 1
    await second.settle()

    assert most == 1
    assert (await station.schedule("slow"))["missed_count"] >= 1


async def test_a_function_that_fails_is_run_again_at_its_next_tick(station: Station) -> None:
    app = station.app()
    calls: list[int] = []

    @app.function("shaky", every=timedelta(minutes=1))
    async def shaky() -> None:
        calls.append(1)
        raise ValueError("no")

    await station.set_clock(MORNING)
    scheduler = await station.scheduler(app)
    for _ in range(2):
        await station.pass_time(minutes=1)
        await scheduler.turn()
        await scheduler.settle()

    assert len(calls) == 2
    assert [run["by_error"] for run in await station.runs()] == ['{"RUNTIME_BUG": 1}'] * 2
    assert await station.owner.fetchval("select count(*) from penstock.alerts where kind = 'function_failed'") == 2


async def test_a_schedule_whose_type_is_gone_is_tried_again_and_holds_nothing_up(station: Station) -> None:
    ran: list[str] = []
    await station.set_clock(MORNING)
    app = sweeping(station, ran)
    app.schedule("orphan", "no_such_type", every=timedelta(minutes=15))
    scheduler = await station.scheduler(app)

    await station.pass_time(minutes=8)
    await scheduler.turn()
    await scheduler.settle()
    assert ran == ["sweep"]
    before = await station.schedule("orphan")
    assert before["last_due_at"] is None
    assert before["lease_expires_at"] is not None, "tried again when the lease is over, not at once"

    @app.job("no_such_type")
    async def now_there() -> None: ...

    await app.open()
    await app.sync_types()
    await app.close()
    await station.pass_time(seconds=61)
    await scheduler.turn()
    await scheduler.settle()
    assert len(await station.jobs()) == 1


PROGRAM = textwrap.dedent(
    """
    import asyncio, sys
    from datetime import timedelta
    from penstock import Penstock
    from penstock.contract import crash

    app = Penstock(sys.argv[1])
    app.functions.housekeeping = ()

    @app.job("report")
    async def report() -> None: ...

    app.schedule("nightly-report", report, {"kind": "full"}, every=timedelta(hours=1))

    @app.function("sweep", every=timedelta(hours=1))
    async def sweep(run) -> None:
        await run.pool.execute("insert into public.sweeps select penstock.now()")

    async def main() -> None:
        crash.arm_from_environment()
        scheduler = app.scheduler(name="doomed", insecure=True)
        await scheduler.open()
        await scheduler.turn()
        await scheduler.settle()

    asyncio.run(main())
    """
)


class Doomed:
    """A station where schedulers are processes that a crash point kills."""

    def __init__(self, station: Station, program: Path) -> None:
        self.station = station
        self.program = program

    async def run(self, crash_at: CrashPoint | None = None) -> int:
        env = {**os.environ, "PENSTOCK_CRASH_AT": crash_at or ""}
        command = [str(self.program), self.station.dsn]
        done = await asyncio.to_thread(forks.run, command, env=env, timeout=PATIENCE)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode

    async def sweeps(self) -> int:
        count: int = await self.station.owner.fetchval("select count(*) from public.sweeps")
        return count


@pytest.fixture
async def doomed(station: Station, tmp_path: Path) -> Doomed:
    program = tmp_path / "scheduler.py"
    program.write_text(PROGRAM)
    await station.owner.execute("create table public.sweeps (at timestamptz)")
    await station.set_clock(MORNING)
    made = Doomed(station, program)
    assert await made.run() == 0  # declares the schedules
    await station.pass_time(hours=1)
    return made


async def test_a_scheduler_killed_after_its_claim_leaves_the_tick_to_the_next(doomed: Doomed) -> None:
    assert await doomed.run(CrashPoint.AFTER_SCHEDULE_CLAIM) == -signal.SIGKILL
    assert await doomed.run() == 0
    assert (await doomed.sweeps(), len(await doomed.station.jobs())) == (0, 0), "the lease still holds"

    await doomed.station.pass_time(seconds=61)
    for _ in range(2):
        assert await doomed.run() == 0

    assert (await doomed.sweeps(), len(await doomed.station.jobs())) == (1, 1)
    (run,) = await doomed.station.runs()
    assert run["due_at"] == MORNING.replace(hour=9, minute=0)
    assert (await doomed.station.schedule("sweep"))["missed_count"] == 0


async def test_a_scheduler_killed_before_its_run_never_has_that_tick_run_twice(doomed: Doomed) -> None:
    assert await doomed.run(CrashPoint.BEFORE_SCHEDULE_RUN) == -signal.SIGKILL

    await doomed.station.pass_time(seconds=61)
    assert await doomed.run() == 0
    (begun,) = await doomed.station.runs()
    assert (begun["finished_at"], await doomed.sweeps()) == (None, 0)
    assert len(await doomed.station.jobs()) == 1

    await doomed.station.pass_time(hours=1)
    assert await doomed.run() == 0
    due: list[Any] = [run["due_at"] for run in await doomed.station.runs()]
    assert due == [MORNING.replace(hour=9, minute=0), MORNING.replace(hour=10, minute=0)]
    assert await doomed.sweeps() == 1
