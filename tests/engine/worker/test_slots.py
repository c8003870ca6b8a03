"""Slots: one runs many jobs, and none of them meets what an earlier one has left behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from penstock.engine.executor import Executor

if TYPE_CHECKING:
    from tests.engine.worker.conftest import Floor

ENDED = "count(*) = 0 from penstock.jobs where status in ('queued', 'processing')"


def cancel_this_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@pytest.mark.contract("E-01", "C-63")
async def test_a_handler_that_cancels_itself_has_failed(floor: Floor) -> None:
    """Nobody of ours has stopped it, so it is no shutdown; before its time limit, so it is no timeout."""

    @floor.app.job("own", attempts=1)
    async def own(job: Any, args: Any) -> None:
        cancel_this_task()
        await asyncio.Event().wait()

    async with floor.working() as worker:
        job_id = await floor.app.enqueue("own")
        await floor.until("status = 'failed' from penstock.jobs where job_id = $1", job_id)
        await worker.settle()
        assert not worker.place.held
    letter = await floor.owner.fetchrow("select error_class, attempts from penstock.dead_letters")
    assert letter == ("RUNTIME_BUG", 1)


@pytest.mark.contract("E-01")
async def test_a_cancellation_that_a_handler_leaves_behind_is_not_the_next_jobs(floor: Floor) -> None:
    """The first ends before it is thrown; the second would meet it where it first waits."""
    crew: list[Any] = []

    @floor.app.job("one", attempts=1)
    async def one(job: Any, args: dict[str, int]) -> None:
        crew.append(asyncio.current_task())
        if args["n"] == 0:
            cancel_this_task()
        else:
            await asyncio.sleep(0)

    async with floor.working(concurrency=1) as worker:
        worker.slots._ahead = 10  # so that one slot has them all
        await floor.app.enqueue_many("one", [{"n": n} for n in range(3)])
        await floor.until(ENDED)
    assert await floor.counts() == {"completed": 3}
    assert crew[0] is not crew[1]


@pytest.mark.contract("E-01")
async def test_a_child_that_was_cancelled_fails_its_job_also_after_one_that_swallowed_a_cancellation(
    floor: Floor,
) -> None:
    """A timeout helper of the old kind cancels its task and never takes that back."""

    @floor.app.job("one", attempts=1)
    async def one(job: Any, args: dict[str, int]) -> None:
        if args["n"] == 0:
            cancel_this_task()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.Event().wait()
            return
        child = asyncio.create_task(asyncio.Event().wait())
        child.cancel()
        await child

    async with floor.working(concurrency=1) as worker:
        worker.slots._ahead = 10
        await floor.app.enqueue_many("one", [{"n": n} for n in range(3)])
        await floor.until(ENDED)
    assert await floor.counts() == {"completed": 1, "failed": 2}


@pytest.mark.contract("C-13", "Q-65")
async def test_a_claim_whose_slot_has_ended_under_it_is_renewed_no_more(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute, broken = Executor.execute, [RuntimeError("a secret")]

    async def at_first_not(executor: Executor, running: Any) -> Any:
        if broken:
            raise broken.pop()
        return await execute(executor, running)

    monkeypatch.setattr(Executor, "execute", at_first_not)

    @floor.app.job("one")
    async def one(job: Any, args: Any) -> None: ...

    with capture_logs() as lines:
        async with floor.working() as worker:
            job_id = await floor.app.enqueue("one")
            await floor.until("status = 'processing' from penstock.jobs where job_id = $1", job_id)
            await worker.settle()
            assert not worker.place.held
            await floor.pass_time(minutes=6)
            worker._on_timer()  # as when it wakes for the lease
            await floor.until("status = 'completed' from penstock.jobs where job_id = $1", job_id)
    [dropped] = [line for line in lines if line["event"] == "claim_dropped"]
    assert (dropped["job_id"], dropped["error"]) == (str(job_id), "RuntimeError")
    row = await floor.owner.fetchrow("select sum(lost_count) as lost, sum(succeeded_count) as done from penstock.runs")
    assert row == (1, 1)
