"""`job.transaction()`: the application's rows and the end of the stage are one commit (C-60)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from asyncpg import DivisionByZeroError

from penstock import LeaseLost, Penstock, Schedule
from penstock.testing import Harness
from tests.engine.looking import letter, stages, until, waits

if TYPE_CHECKING:
    import asyncpg

    Owner = asyncpg.Connection[Any]

WRITE = "insert into public.writes (job_id, claim_seq, note) values ($1, $2, 'written')"
TAKE_AWAY = (
    "update penstock.jobs set status = 'queued', lease_expires_at = null, claimed_by = null, claimed_at = null, "
    "ready = false, run_at = penstock.now() + interval '1 hour' where job_id = $1"
)


async def written(owner: Owner) -> int:
    count: int = await owner.fetchval("select count(*) from public.writes")
    return count


@pytest.mark.contract("C-60", "A-44", "D-21")
async def test_rows_and_completion_appear_in_the_same_commit(app: Penstock, owner: Owner) -> None:
    @app.job("write")
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
            assert await written(owner) == 0
            assert await owner.fetchval("select status from penstock.jobs") == "processing"
        together = "select (select count(*) from public.writes), status from penstock.jobs"
        assert await owner.fetch(together) == [(1, "completed")]

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"]) == ("completed", 0)
        same = "select (select xmin::text from public.writes) = (select xmin::text from penstock.jobs)"
        assert await owner.fetchval(same)
    assert await written(owner) == 1


@pytest.mark.contract("C-60")
async def test_an_error_that_the_handler_caught_inside_still_rolls_everything_back(app: Penstock, owner: Owner) -> None:
    @app.job("write", attempts=1)
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
            with pytest.raises(DivisionByZeroError):
                await tx.execute("select 1 / 0")

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        assert await harness.status(job_id) == "failed"
    assert await written(owner) == 0


@pytest.mark.contract("C-60", "C-31", "D-54", "A-04")
async def test_a_lost_lease_rolls_everything_back(app: Penstock, owner: Owner) -> None:
    raised: list[type[BaseException]] = []

    @app.job("write")
    async def write(job: Any, args: Any) -> None:
        try:
            async with job.transaction() as tx:
                await tx.execute(WRITE, job.job_id, job.claim_seq)
                if job.claim_seq == 1:
                    await owner.execute(TAKE_AWAY, job.job_id)
        except BaseException as error:
            raised.append(type(error))
            raise

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        assert raised == [LeaseLost]
        assert await written(owner) == 0
        assert (await harness.job(job_id))["attempt_count"] == 0
        await harness.work_until_idle()
        assert await harness.status(job_id) == "completed"
    assert await owner.fetch("select claim_seq from public.writes") == [(2,)]


@pytest.mark.contract("C-60", "E-01")
async def test_an_exception_inside_rolls_back_and_is_an_ordinary_failure(app: Penstock, owner: Owner) -> None:
    @app.job("write", backoff=Schedule([60]))
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
            if job.attempt == 1:
                raise TimeoutError

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        assert await waits(harness, job_id) == timedelta(seconds=60)
        assert ((await harness.job(job_id))["attempt_count"], await written(owner)) == (1, 0)
        await harness.work_until_idle()
        assert (await harness.status(job_id), await written(owner)) == ("completed", 1)


@pytest.mark.contract("C-60")
@pytest.mark.parametrize("way", ["snooze", "cancel"])
async def test_a_snooze_or_a_cancel_inside_rolls_back_too(app: Penstock, owner: Owner, way: str) -> None:
    @app.job("write")
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
            if way == "snooze":
                job.snooze(timedelta(hours=1))
            job.cancel()

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        assert await harness.status(job_id) == ("queued" if way == "snooze" else "canceled")
    assert await written(owner) == 0


@pytest.mark.contract("C-60", "D-06")
@pytest.mark.parametrize("error", [RuntimeError("late"), TimeoutError(), asyncio.CancelledError()], ids=repr)
async def test_what_a_handler_raises_after_the_commit_changes_nothing(
    app: Penstock, owner: Owner, error: BaseException
) -> None:
    @app.job("write", attempts=1)
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
        raise error

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("completed", 0, None)
        assert await harness.dead_letters() == []
    assert await written(owner) == 1


@pytest.mark.contract("C-60")
@pytest.mark.parametrize("way", ["snooze", "cancel"])
async def test_a_snooze_or_a_cancel_after_the_commit_comes_too_late(app: Penstock, owner: Owner, way: str) -> None:
    @app.job("write")
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
        if way == "snooze":
            job.snooze(timedelta(hours=1))
        job.cancel()

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        assert await harness.status(job_id) == "completed"
        run = await app.pool.fetchrow("select succeeded_count, lost_count from penstock.runs")
        assert run is None or tuple(run) == (1, 0)


@pytest.mark.contract("C-60", "E-26")
async def test_a_stage_that_is_not_the_last_ends_with_its_transaction_and_its_result(
    app: Penstock, owner: Owner
) -> None:
    ran: list[str] = []
    review = app.type("review", stages=("fetch", "llm"), backoff=Schedule([0]))

    @review.stage("fetch")
    async def fetch(job: Any, args: Any) -> None:
        ran.append("fetch")
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
            job.save({"version": await tx.fetchval("select 7")})
        if len(ran) == 1:
            raise RuntimeError("after the commit")

    @review.stage("llm")
    async def llm(job: Any, args: Any) -> None:
        ran.append("llm")
        assert job.result("fetch") == {"version": 7}
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("review")
        await harness.drain()
        assert await harness.status(job_id) == "completed"
        assert await stages(harness, job_id) == {"fetch": 0, "llm": 0}
    assert ran == ["fetch", "llm"]
    assert await written(owner) == 2


@pytest.mark.contract("C-60", "C-63")
async def test_a_handler_out_of_time_inside_its_transaction_leaves_nothing(app: Penstock, owner: Owner) -> None:
    @app.job("write", timeout=timedelta(seconds=0.2), attempts=1)
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
            await asyncio.Event().wait()

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        assert (await letter(harness, job_id))["error_class"] == "HANDLER_TIMEOUT"
    assert await written(owner) == 0


@pytest.mark.contract("C-60", "C-63")
async def test_a_commit_under_way_is_never_cancelled(app: Penstock, owner: Owner) -> None:
    """The time limit rings while the COMMIT waits for a lock of a deferred check; the commit wins."""
    await owner.execute("create table public.slow (n integer primary key deferrable initially deferred)")
    await owner.execute(
        "create function public.dawdle() returns trigger language plpgsql as "
        "$$ begin perform pg_sleep(0.6); return null; end $$"
    )
    await owner.execute(
        "create constraint trigger dawdle after insert on public.slow deferrable initially deferred "
        "for each row execute function public.dawdle()"
    )

    @app.job("write", timeout=timedelta(seconds=0.3), attempts=1)
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute("insert into public.slow values (1)")

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        assert await harness.status(job_id) == "completed"
    assert await owner.fetchval("select count(*) from public.slow") == 1


@pytest.mark.contract("C-60")
@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_commit_whose_reply_is_lost_is_looked_up_and_not_guessed(
    app: Penstock, owner: Owner, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 6 of the fault list: cut before and after the commit raise the same error."""
    commits: list[Any] = []

    async def commit(transaction: Any) -> None:
        if cut == "after":
            await transaction._connection.execute("commit")
        transaction._connection.terminate()
        commits.append(transaction)
        raise ConnectionResetError

    @app.job("write", backoff=Schedule([60]))
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
            if job.attempt == 1:
                monkeypatch.setattr("asyncpg.transaction.Transaction.commit", commit)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        await harness.drain()
        monkeypatch.undo()
        row = await harness.job(job_id)
        assert len(commits) == 1
        if cut == "after":
            assert (row["status"], row["attempt_count"]) == ("completed", 0)
        else:
            assert (row["status"], row["attempt_count"], await written(owner)) == ("queued", 1, 0)
            await harness.work_until_idle()
    assert await written(owner) == 1


@pytest.mark.contract("D-82", "D-06", "A-04")
async def test_processing_twice_leaves_the_rows_as_after_the_first_time(app: Penstock, owner: Owner) -> None:
    """The first run is finished by a worker that has lost its lease; the second is the one that counts."""
    begun, gate = asyncio.Event(), asyncio.Event()

    @app.job("write", lease=timedelta(minutes=1))
    async def write(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
            if job.claim_seq == 1:
                begun.set()
                await gate.wait()

    async with Harness(app) as harness:
        job_id = await harness.enqueue("write")
        slow = await harness.worker("slow")
        slow.heartbeat.period = 3600  # frozen
        first = asyncio.create_task(slow.work())
        await begun.wait()
        await harness.pass_time(minutes=2)
        await harness.drain("quick")
        done = await harness.job(job_id)
        gate.set()
        await first
        assert await harness.job(job_id) == done
        assert done["status"] == "completed"
    assert await owner.fetch("select claim_seq from public.writes") == [(2,)]


@pytest.mark.contract("C-60")
async def test_many_open_transactions_block_neither_claims_nor_records(app: Penstock, owner: Owner) -> None:
    """Fault 34: handlers have connections of their own; those that find none wait for one."""
    holding = asyncio.Semaphore(0)
    release = asyncio.Event()

    @app.job("holds")
    async def holds(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            await tx.execute(WRITE, job.job_id, job.claim_seq)
            holding.release()
            await release.wait()

    @app.job("quick")
    async def quick(job: Any, args: Any) -> None:
        await job.effect("note", perform=_echo)

    async with Harness(app) as harness, harness.running(concurrency=60):
        await app.enqueue_many("holds", [{}] * 40)
        for _ in range(app.settings.pool_max):
            await holding.acquire()
        job_id = await harness.enqueue("quick")
        await until(owner, "status = 'completed' from penstock.jobs where job_id = $1", job_id)
        release.set()
        await until(owner, "count(*) = 40 from public.writes")


async def _echo(token: str) -> str:
    return token


@pytest.mark.contract("C-60")
async def test_what_a_handler_leaves_in_its_session_is_gone_for_the_next(app: Penstock, owner: Owner) -> None:
    seen: list[str] = []

    @app.job("session")
    async def session(job: Any, args: Any) -> None:
        async with job.transaction() as tx:
            seen.append(await tx.fetchval("show work_mem"))
            await tx.execute("set work_mem = '77MB'")

    async with Harness(app, concurrency=1) as harness:
        for _ in range(2):
            await harness.enqueue("session")
        await harness.drain()
    assert seen[0] == seen[1] != "77MB"
