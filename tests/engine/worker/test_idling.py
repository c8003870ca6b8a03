"""An idle worker: how it goes to sleep, and what may not hold it up."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.engine import recorder
from penstock.store import claims
from penstock.store.claims import NextWake
from penstock.telemetry import events
from penstock.testing import Harness
from tests.engine.worker.conftest import Floor


@pytest.mark.contract("D-40")
async def test_a_poke_is_not_held_up_by_the_planning_of_a_sleep(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    planning, started = asyncio.Event(), asyncio.Event()

    async def never_answers(*_: object) -> NextWake:
        planning.set()
        await asyncio.Event().wait()
        raise AssertionError

    @floor.app.job("echo")
    async def echo(job: Any, args: Any) -> None:
        started.set()

    monkeypatch.setattr(claims, "next_wake", never_answers)
    async with floor.working():
        await planning.wait()
        await floor.app.enqueue("echo")
        async with asyncio.timeout(10):
            await started.wait()


@pytest.mark.contract("C-29")
async def test_a_job_that_fell_due_while_a_sleep_was_planned_is_not_slept_over(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is made again when a drain came between its question and its answer."""
    asked: asyncio.Queue[asyncio.Event] = asyncio.Queue()
    ask = claims.next_wake

    async def answers_late(*arguments: Any) -> NextWake:
        answer = await ask(*arguments)
        told = asyncio.Event()
        asked.put_nowait(told)
        await told.wait()
        return answer

    done = asyncio.Event()

    @floor.app.job("echo")
    async def echo(job: Any, args: dict[str, bool]) -> None:
        if args["late"]:
            done.set()

    monkeypatch.setattr(claims, "next_wake", answers_late)
    async with floor.working():
        first = await asked.get()
        await floor.app.enqueue("echo", {"late": True}, delay=0.05)
        await floor.app.enqueue("echo", {"late": False})
        await floor.until("exists (select from penstock.jobs where status = 'completed')")
        first.set()
        second = await asked.get()
        second.set()
        async with asyncio.timeout(10):  # the poll would come after 30 seconds
            while not done.is_set():
                if not asked.empty():
                    asked.get_nowait().set()
                await asyncio.sleep(0.001)


async def test_a_plan_made_before_a_loss_does_not_put_off_the_look_after_it(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning, answer, lost, done = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    take = claims.take

    async def answers_late(*_: object) -> NextWake:
        planning.set()
        await answer.wait()
        return NextWake(None, None, None)

    async def loses_its_reply(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(claims, "take", take)
        await take(*arguments, **options)
        raise asyncpg.ConnectionDoesNotExistError

    @floor.app.job("echo")
    async def echo(job: Any, args: Any) -> None:
        done.set()

    monkeypatch.setattr(claims, "next_wake", answers_late)
    monkeypatch.setattr(events, "database_away", lambda *_: lost.set())
    async with floor.working(), asyncio.timeout(15):  # the poll would come after 30 seconds
        await planning.wait()
        monkeypatch.setattr(claims, "take", loses_its_reply)
        await floor.app.enqueue("echo")
        await lost.wait()
        answer.set()
        await done.wait()


async def test_a_worker_with_nothing_else_to_do_records_a_job_at_once(floor: Floor) -> None:
    async with Penstock(floor.dsn, flush_ms=10_000) as app:

        @app.job("echo")
        async def echo(job: Any, args: Any) -> None:
            """Done."""

        worker = app.worker(dsn=floor.dsn, insecure=True)
        task = asyncio.create_task(worker.run())
        await worker.ready.wait()
        await app.enqueue("echo")
        await floor.until("exists (select from penstock.jobs where status = 'completed')", seconds=8)
        worker.stop()
        await task


async def test_who_waits_for_a_write_does_not_turn_in_circles(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Penstock(dsn)
    writing, written, flushes = asyncio.Event(), asyncio.Event(), 0
    complete = claims.complete

    async def slow(*arguments: Any) -> list[Any]:
        writing.set()
        await written.wait()
        return await complete(*arguments)

    def count(_: object) -> None:
        nonlocal flushes
        flushes += 1

    @app.job("echo")
    async def echo(job: Any, args: Any) -> None: ...

    async with Harness(app) as harness:
        job = await harness.enqueue("echo")
        monkeypatch.setattr(claims, "complete", slow)
        monkeypatch.setattr(recorder, "passing", count)
        drained = asyncio.create_task(harness.drain())
        await writing.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        looks = flushes
        written.set()
        await drained

        assert looks < 5, "nothing new has come that a look could have found"
        assert await harness.status(job) == "completed"
