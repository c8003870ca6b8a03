"""The harness runs real jobs on a real database."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock import Audit, Dispatch, Failed, FailureClass, Job, Penstock, Schedule, Snooze
from penstock.testing import CrashPoint, Harness


async def test_a_drain_runs_what_is_due_and_leaves_the_rest(dsn: str) -> None:
    app = Penstock(dsn)
    seen: list[int] = []

    @app.job("note")
    async def note(args: dict[str, Any]) -> None:
        seen.append(args["n"])

    async with Harness(app) as h:
        now = await h.enqueue("note", {"n": 1})
        later = await h.enqueue("note", {"n": 2}, delay=timedelta(hours=1))
        assert await h.drain() == 1
        assert (await h.status(now), await h.status(later)) == ("completed", "queued")
        await h.pass_time(hours=1, seconds=1)
        assert await h.drain() == 1
    assert seen == [1, 2]


async def test_working_until_idle_winds_the_clock_through_retries(dsn: str) -> None:
    app = Penstock(dsn)
    tries: list[int] = []

    @app.job("flaky", attempts=3, backoff=Schedule([600, 7200]), audit=Audit.FULL)
    async def flaky(job: Job) -> None:
        tries.append(job.attempt)
        if len(tries) < 3:
            raise Failed(FailureClass.NETWORK_TIMEOUT)

    async with Harness(app) as h:
        job_id = await h.enqueue("flaky")
        assert await h.work_until_idle() == 3
        assert await h.status(job_id) == "completed"
        assert [to for _, to in await h.events(job_id)] == [
            "queued", "processing", "queued", "processing", "queued", "processing", "completed",
        ]  # fmt: skip


async def test_enqueued_says_what_it_did_not_find(dsn: str) -> None:
    app = Penstock(dsn)

    @app.job("mail")
    async def mail() -> None: ...

    async with Harness(app) as h:
        await h.enqueue("mail", {"to": {"id": 7, "lang": "en"}, "n": 1}, key="seven")
        (row,) = await h.enqueued("mail", {"to": {"id": 7}}, key="seven", count=1)
        assert row["status"] == "queued"
        await h.enqueued("mail", {"to": {"id": 8}}, count=0)
        with pytest.raises(AssertionError, match=r"at least one job of type 'mail'.*found 0 .of 1"):
            await h.enqueued("mail", {"to": {"id": 8}})


async def test_a_crashed_worker_leaves_its_claim_until_the_lease_is_over(dsn: str) -> None:
    app = Penstock(dsn)
    started = asyncio.Event()
    runs: list[str] = []

    @app.job("slow", lease=timedelta(minutes=5))
    async def slow() -> None:
        runs.append("run")
        if len(runs) == 1:
            started.set()
            await asyncio.Event().wait()

    async with Harness(app) as h:
        job_id = await h.enqueue("slow")
        doomed = await h.worker("doomed")
        task = asyncio.create_task(doomed.work())
        await started.wait()
        await h.crash("doomed")
        task.cancel()
        await h.drain()
        assert await h.status(job_id) == "processing"
        await h.pass_time(minutes=5, seconds=1)
        await h.drain()
        assert await h.status(job_id) == "completed"
        assert (await h.job(job_id))["attempt_count"] == 1


async def test_a_running_worker_picks_up_what_is_enqueued(dsn: str) -> None:
    app = Penstock(dsn)
    done = asyncio.Event()

    @app.job("ping")
    async def ping() -> None:
        done.set()

    async with Harness(app) as h, h.running("w1"):
        await h.enqueue("ping")
        async with asyncio.timeout(10):
            await done.wait()


@pytest.mark.parametrize("point", [CrashPoint.AFTER_CLAIM, CrashPoint.MID_HANDLER, CrashPoint.BEFORE_RECORD])
async def test_a_worker_killed_before_recording_costs_one_attempt(point: CrashPoint, dsn: str) -> None:
    app = Penstock(dsn)
    runs: list[str] = []

    @app.job("echo", lease=timedelta(minutes=5))
    async def echo() -> None:
        runs.append("here")

    async with Harness(app) as h:
        job_id = await h.enqueue("echo")
        await h.work_and_die(point)
        assert await h.status(job_id) == "processing"
        assert await h.drain() == 0
        await h.pass_time(minutes=5, seconds=1)
        assert await h.drain() == 1
        assert await h.status(job_id) == "completed"
        assert (await h.job(job_id))["attempt_count"] == 1
    assert runs == ["here"]


async def test_a_worker_that_never_comes_to_its_crash_fails_the_test(dsn: str) -> None:
    app = Penstock(dsn)

    @app.job("echo")
    async def echo() -> None: ...

    async with Harness(app) as h:
        with pytest.raises(AssertionError, match="without coming to mid_handler"):
            await h.work_and_die(CrashPoint.MID_HANDLER)


async def test_a_job_killed_after_its_record_is_done(dsn: str) -> None:
    app = Penstock(dsn)

    @app.job("echo")
    async def echo() -> None: ...

    async with Harness(app) as h:
        job_id = await h.enqueue("echo")
        await h.work_and_die(CrashPoint.AFTER_RECORD)
        assert await h.status(job_id) == "completed"


async def test_scheduled_types_are_drained_too(dsn: str) -> None:
    app = Penstock(dsn)

    @app.job("nightly", dispatch=Dispatch.SCHEDULED)
    async def nightly() -> None: ...

    async with Harness(app) as h:
        job_id = await h.enqueue("nightly")
        assert await h.drain() == 1
        assert await h.status(job_id) == "completed"


async def test_a_job_that_comes_back_for_ever_fails_the_test_instead_of_hanging_it(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.testing.harness.ROUNDS", 5)
    app = Penstock(dsn)

    @app.job("stubborn")
    async def stubborn() -> None:
        raise Snooze(timedelta(0))

    async with Harness(app) as h:
        await h.enqueue("stubborn")
        with pytest.raises(AssertionError, match="keeps coming back"):
            await h.drain()


async def test_an_application_is_pointed_at_the_test_database_and_back(dsn: str) -> None:
    app = Penstock("postgresql://nobody@127.0.0.1:1/production")

    @app.job("echo")
    async def echo() -> None: ...

    async with Harness(app, dsn) as h:
        job_id = await h.enqueue("echo")
        await h.drain()
        assert await h.status(job_id) == "completed"
    assert app.named_dsn == "postgresql://nobody@127.0.0.1:1/production"


async def test_the_clock_is_right_again_afterwards(dsn: str) -> None:
    app = Penstock(dsn)
    async with Harness(app) as h:
        await h.pass_time(days=3)
        assert await h.clock.now() > datetime.now(UTC) + timedelta(days=2)
    async with Harness(app) as h:
        assert abs(await h.clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
        with pytest.raises(TypeError, match="not fortnights"):
            await h.pass_time(fortnights=1)
