"""Records of drains: few rows, true counts, and no statement of their own while there is work."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest

from penstock.contract.claims import Caps, Trigger
from penstock.engine import fetcher, recorder
from penstock.engine.runs import Run
from penstock.store import runs
from penstock.testing.inline import InlineWorker
from tests.engine.worker.conftest import Floor

NAMED = (
    "count(*) = 0 from penstock.jobs as j where not exists (select from penstock.runs as r where r.run_id = j.run_id)"
)


class Trickle:
    """Jobs that come one by one: the next when the last one has ended, so that each has a drain of its own."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._failing = False

        @floor.app.job("drop", attempts=1)
        async def drop(job: Any, args: Any) -> None:
            job.count_call("openai", "small")
            if self._failing:
                raise ValueError

    async def flow(self, count: int, *, failing: bool = False) -> None:
        self._failing = failing
        ended = "status in ('completed', 'failed') from penstock.jobs where job_id = $1"
        for _ in range(count):
            await self._floor.until(ended, await self._floor.app.enqueue("drop"))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let time pass for the drains of this process."""

    class Clock:
        shift = 0.0

        def monotonic(self) -> float:
            return time.monotonic() + self.shift

        def __call__(self, seconds: float) -> None:
            self.shift += seconds

    clock = Clock()
    monkeypatch.setattr(fetcher, "time", clock)
    return clock


@pytest.mark.contract("C-55", "Q-77", "Q-78", "Q-79")
async def test_two_hundred_jobs_that_trickle_in_leave_a_handful_of_records(floor: Floor, later: Any) -> None:
    trickle = Trickle(floor)
    async with floor.working():
        await trickle.flow(120)
        later(61)
        await trickle.flow(70)
        await trickle.flow(10, failing=True)
        await floor.until("sum(claimed_count) = 200 from penstock.runs")  # not only when the worker stops
        assert await floor.owner.fetchval(f"select {NAMED}")
    rows = await floor.owner.fetch("select * from penstock.runs order by started_at")
    assert len(rows) <= 3
    assert sum(row["succeeded_count"] for row in rows) == 190
    assert sum(row["failed_count"] for row in rows) == 10
    assert (rows[-1]["claimed_count"], rows[-1]["by_model"], rows[-1]["by_error"]) == (
        80,
        '{"openai/small": 80}',
        '{"RUNTIME_BUG": 10}',
    )
    assert all(row["started_at"] <= row["finished_at"] for row in rows)
    assert all(row["claimed_count"] <= row["max_jobs_per_run"] for row in rows)


@pytest.mark.contract("C-55")
async def test_a_record_goes_with_the_completions_of_later_jobs(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is work no statement is made for a record alone."""
    alone: list[int] = []
    save = runs.save

    async def counted(db: Any, rows: Any) -> None:
        alone.append(len(rows))
        await save(db, rows)

    monkeypatch.setattr(runs, "save", counted)
    monkeypatch.setattr(recorder, "IDLE_SAVE", 5.0)
    trickle = Trickle(floor)
    async with floor.working():
        await trickle.flow(50)
        assert alone == []
        assert await floor.owner.fetchval("select sum(succeeded_count) >= 45 from penstock.runs")
    assert alone == [1]


@pytest.mark.contract("C-55")
async def test_an_idle_look_leaves_the_record_of_the_last_minute_alone(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    trickle = Trickle(floor)
    looked = asyncio.Event()
    async with floor.working() as worker:
        await trickle.flow(1)
        await floor.until("sum(succeeded_count) = 1 from penstock.runs")
        before = await floor.owner.fetchrow("select *, xmin from penstock.runs")
        monkeypatch.setattr(worker.announcer, "look_now_and_then", looked.set)
        worker._on_timer()
        await looked.wait()
        await worker.recorder.flush()
        assert await floor.owner.fetchrow("select *, xmin from penstock.runs") == before


@pytest.mark.contract("C-55")
async def test_every_run_by_hand_has_a_record_of_its_own(floor: Floor) -> None:
    Trickle(floor)
    hand = InlineWorker(floor.dsn, list(floor.app.types), floor.app.settings, insecure=True)
    await hand.open()
    for _ in range(3):
        await floor.app.enqueue("drop")
        assert await hand.drain(Trigger.ADMIN) == 1
    await hand.close()
    rows = await floor.owner.fetch("select trigger, claimed_count from penstock.runs")
    assert rows == [("admin", 1)] * 3


@pytest.mark.contract("C-55")
async def test_an_older_state_of_a_record_that_comes_late_changes_nothing(floor: Floor) -> None:
    run = Run("drain", Trigger.POLL, Caps(10, timedelta(minutes=4)), 0.0)
    run.claimed = run.succeeded = 5
    await runs.save(floor.owner, [run.row("w", "base")])
    late = run.row("w", "base") | {"claimed_count": 3, "succeeded_count": 3}
    await runs.save(floor.owner, [late])
    assert await floor.owner.fetchval("select (claimed_count, succeeded_count) = (5, 5) from penstock.runs")
