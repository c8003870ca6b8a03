"""Claiming: who gets which job, in what order, and what the row says afterwards."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from penstock.contract.claims import Caps, Claim, Trigger
from penstock.contract.errors import LeaseLost
from penstock.contract.verdicts import Completed
from penstock.engine.running import Running
from penstock.engine.runs import Run
from penstock.store import claims as store
from tests.engine.worker.conftest import Floor
from tests.support.suspects import take_suspect

LEASE = timedelta(minutes=5)


async def declare(floor: Floor, *names: str) -> None:
    for name in names:
        floor.app.job(name)(nothing)
    await floor.app.sync_types()


async def nothing(job: Any, args: Any) -> None:
    """Done."""


async def take(floor: Floor, *types: str, limit: int = 10, worker: str = "w1") -> list[Claim]:
    return await store.take(
        floor.app.pool,
        types,
        [LEASE] * len(types),
        [store.START] * len(types),
        limit=limit,
        worker=worker,
        run=uuid4(),
    )


@pytest.mark.contract("Q-62", "D-45", "Q-28", "D-16", "Q-12")
async def test_a_claim_writes_status_owner_time_and_lease_in_one_statement(floor: Floor) -> None:
    await declare(floor, "echo")
    job_id = await floor.app.enqueue("echo")
    before = await floor.job(job_id)
    assert (before["claimed_by"], before["claimed_at"], before["lease_expires_at"]) == (None, None, None)

    [claim] = await take(floor, "echo", worker="w1")

    row = await floor.job(job_id)
    assert claim.job_id == job_id
    assert (row["status"], row["claimed_by"], row["claim_seq"]) == ("processing", "w1", 1)
    assert row["lease_expires_at"] - row["claimed_at"] == LEASE
    assert abs(row["claimed_at"] - datetime.now(UTC)) < timedelta(seconds=30)


@pytest.mark.contract("Q-61", "Q-11", "Q-56", "D-46")
async def test_only_queued_jobs_that_are_due_can_be_claimed(floor: Floor) -> None:
    await declare(floor, "echo")
    now = datetime.now(UTC)
    unset = await floor.app.enqueue("echo", {"n": 1})
    past = await floor.app.enqueue("echo", {"n": 2}, run_at=now - timedelta(hours=1))
    await floor.app.enqueue("echo", {"n": 3}, run_at=now + timedelta(hours=1))
    canceled = await floor.app.enqueue("echo", {"n": 4})
    await floor.owner.execute("select penstock.cancel($1, 'test', null)", canceled)

    taken = await take(floor, "echo")

    assert {claim.job_id for claim in taken} == {unset, past}


@pytest.mark.contract("Q-42", "C-59", "Q-27")
async def test_a_job_of_the_future_is_claimed_once_it_has_fallen_due(floor: Floor) -> None:
    await declare(floor, "echo")
    job_id = await floor.app.enqueue("echo", delay=timedelta(minutes=10))
    assert await store.promote(floor.app.pool, ["echo"]) == 0
    assert await take(floor, "echo") == []

    await floor.pass_time(minutes=10, seconds=1)
    assert await store.promote(floor.app.pool, ["echo"]) == 1

    assert [claim.job_id for claim in await take(floor, "echo")] == [job_id]


@pytest.mark.contract("C-59", "Q-54", "D-47")
async def test_jobs_are_claimed_by_priority_then_age(floor: Floor) -> None:
    await declare(floor, "echo")
    late = await floor.app.enqueue("echo", {"n": 1}, priority=5)
    first = await floor.app.enqueue("echo", {"n": 2})
    second = await floor.app.enqueue("echo", {"n": 3})
    urgent = await floor.app.enqueue("echo", {"n": 4}, priority=-5)

    order = [(await take(floor, "echo", limit=1))[0].job_id for _ in range(4)]

    assert order == [urgent, first, second, late]


@pytest.mark.contract("Q-54")
async def test_a_bulk_keeps_its_order(floor: Floor) -> None:
    await declare(floor, "echo")
    ids = await floor.app.enqueue_many("echo", [{"n": n} for n in range(50)])

    order = [(await take(floor, "echo", limit=1))[0].job_id for _ in range(50)]

    assert order == ids


@pytest.mark.contract("Q-63", "Q-58", "Q-09", "Q-59")
async def test_a_claim_takes_no_more_than_its_limit_and_leaves_the_rest_untouched(floor: Floor) -> None:
    await declare(floor, "echo")
    await floor.app.enqueue_many("echo", [{"n": n} for n in range(30)])

    taken = await take(floor, "echo", limit=25)

    rest = await floor.owner.fetch("select * from penstock.jobs where status = 'queued'")
    assert len(taken) == 25
    assert len(rest) == 5
    assert all(row["attempt_count"] == 0 and row["last_error_code"] is None for row in rest)


@pytest.mark.contract("Q-62", "D-51", "D-80", "D-10")
async def test_two_claimers_at_once_never_get_the_same_job(floor: Floor) -> None:
    await declare(floor, "echo")
    await floor.app.enqueue_many("echo", [{"n": n} for n in range(200)])

    both_began = asyncio.Barrier(2)  # else one may have taken all before the other begins

    async def claimer(name: str) -> list[UUID]:
        mine = [claim.job_id for claim in await take(floor, "echo", limit=7, worker=name)]
        await both_began.wait()
        while claims := await take(floor, "echo", limit=7, worker=name):
            mine += [claim.job_id for claim in claims]
        return mine

    one, two = await asyncio.gather(claimer("w1"), claimer("w2"))

    assert len(one) + len(two) == 200
    assert set(one).isdisjoint(two)
    assert one
    assert two


@pytest.mark.contract("D-47", "D-10")
async def test_a_row_locked_by_another_session_is_passed_over(floor: Floor) -> None:
    await declare(floor, "echo")
    oldest = await floor.app.enqueue("echo", {"n": 1})
    next_one = await floor.app.enqueue("echo", {"n": 2})
    async with floor.owner.transaction():
        await floor.owner.fetch("select 1 from penstock.jobs where job_id = $1 for update", oldest)
        [claim] = await take(floor, "echo", limit=1)
    assert claim.job_id == next_one


@pytest.mark.contract("D-17", "C-59")
async def test_types_share_one_table_and_a_claim_sees_only_those_it_asks_for(floor: Floor) -> None:
    await declare(floor, "echo", "other")
    await floor.app.enqueue("other")
    mine = await floor.app.enqueue("echo")
    assert [claim.job_id for claim in await take(floor, "echo")] == [mine]


@pytest.mark.contract("C-31", "Q-64")
@pytest.mark.parametrize("wrong", ["worker", "fence", "status"])
async def test_no_write_succeeds_without_the_exact_claim(floor: Floor, wrong: str) -> None:
    await declare(floor, "echo")
    job_id = await floor.app.enqueue("echo")
    [claim] = await take(floor, "echo")
    worker = "w1"
    if wrong == "worker":
        worker = "somebody-else"
    elif wrong == "fence":
        claim.claim_seq += 1
    else:
        await floor.owner.execute("select penstock.cancel($1, 'test', null)", job_id)
    before = await floor.job(job_id)
    pool = floor.app.pool

    assert await store.complete(pool, worker, [claim]) == [claim]
    assert await store.requeue(pool, worker, [store.Requeue(claim, timedelta(0), charged=True, code="X")]) == [claim]
    assert await store.fail(pool, worker, [_death(claim)]) == [claim]
    assert not await store.cancel(pool, worker, claim, "no")
    assert await store.renew(pool, worker, [(claim.job_id, claim.claim_seq, LEASE)]) == {}
    assert not await store.owned(pool, worker, claim)
    with pytest.raises(LeaseLost):
        await store.finish(pool, worker, claim)
    with pytest.raises(LeaseLost):
        await store.advance(pool, worker, claim, "run", None)

    assert await floor.job(job_id) == before
    assert await floor.owner.fetchval("select count(*) from penstock.dead_letters") == 0


@pytest.mark.contract("A-75", "C-31")
async def test_completing_twice_changes_nothing_the_second_time(floor: Floor) -> None:
    await declare(floor, "echo")
    job_id = await floor.app.enqueue("echo")
    [claim] = await take(floor, "echo")
    assert await store.complete(floor.app.pool, "w1", [claim]) == []
    done = await floor.job(job_id)

    assert await store.complete(floor.app.pool, "w1", [claim]) == []  # a lost reply is no lost lease

    assert await floor.job(job_id) == done


@pytest.mark.contract("C-31")
async def test_in_a_set_only_the_stale_claim_is_dropped(floor: Floor) -> None:
    await declare(floor, "echo")
    await floor.app.enqueue_many("echo", [{"n": n} for n in range(3)])
    claims = await take(floor, "echo")
    stale = claims[1]
    await floor.owner.execute(
        "update penstock.jobs set lease_expires_at = penstock.now() - interval '1 s' where job_id = $1", stale.job_id
    )
    await store.reap(floor.app.pool)
    [again] = await take_suspect(floor.app.pool, ["echo"], worker="w1")

    assert await store.complete(floor.app.pool, "w1", claims) == [stale]

    assert again.claim_seq == stale.claim_seq + 1
    assert (await floor.job(stale.job_id))["status"] == "processing"
    assert await floor.counts() == {"completed": 2, "processing": 1}


async def claim_twice(floor: Floor, worker: str = "w1") -> tuple[Claim, Claim]:
    """Two claims of one job by one worker, which had lost the first one."""
    [old] = await take(floor, "echo", worker=worker)
    await floor.owner.execute("update penstock.jobs set lease_expires_at = penstock.now() - interval '1 s'")
    await store.reap(floor.app.pool)
    [new] = await take_suspect(floor.app.pool, ["echo"], worker=worker)
    return old, new


@pytest.mark.contract("C-31")
@pytest.mark.parametrize("end", ["complete", "requeue", "fail"])
async def test_of_two_claims_of_one_job_in_a_set_the_newer_one_is_recorded(floor: Floor, end: str) -> None:
    await declare(floor, "echo")
    job_id = await floor.app.enqueue("echo")
    old, new = await claim_twice(floor)
    pool = floor.app.pool

    for again in (False, True):
        if end == "complete":
            lost = await store.complete(pool, "w1", [old, new])
        elif end == "requeue":
            lost = await store.requeue(pool, "w1", [store.Requeue(c, timedelta(0), charged=False) for c in (old, new)])
        else:
            lost = await store.fail(pool, "w1", [_death(old), _death(new)])
        # Asked again because the reply was lost, only a completion can be told from a lost claim.
        assert lost == ([old, new] if again and end != "complete" else [old])

    expected = {"complete": "completed", "requeue": "queued", "fail": "failed"}[end]
    assert (await floor.job(job_id))["status"] == expected


@pytest.mark.contract("C-31")
async def test_two_claims_of_one_job_in_a_set_are_each_counted_as_what_they_are(floor: Floor) -> None:
    await declare(floor, "echo", "other")
    await floor.app.enqueue("echo")
    async with floor.working(types=["other"], name="w1") as worker:
        claims = await claim_twice(floor)
        run = Run("drain", Trigger.POLL, Caps(10, LEASE), 0.0)
        run.claimed, run.claiming = 2, False
        for claim in claims:
            worker.recorder.put(Running(claim, floor.app.types.get("echo"), run, 0.0), Completed())
        await worker.settle()
    assert (run.succeeded, run.lost) == (1, 1)


@pytest.mark.contract("C-22")
async def test_ten_thousand_later_jobs_do_not_hide_one_that_commits_late(floor: Floor) -> None:
    """The mark is a hint: an enqueue in a long transaction commits behind it and is found all the same."""
    seen: list[int] = []

    @floor.app.job("late")
    async def late(job: Any, args: dict[str, int]) -> None:
        seen.append(args["n"])

    await floor.app.sync_types()
    slow = await asyncpg.connect(floor.dsn)
    transaction = slow.transaction()
    await transaction.start()
    await slow.fetchval("select penstock.enqueue('late', '{\"n\": -1}')")
    await floor.app.enqueue_many("late", [{"n": n} for n in range(10_000)])
    async with floor.working() as worker:
        await floor.until("count(*) = 10000 from penstock.jobs where status = 'completed'")
        await transaction.commit()
        await floor.until("count(*) = 10001 from penstock.jobs where status = 'completed'")
        await worker.settle()
    await slow.close()
    assert seen.count(-1) == 1


def _death(claim: Claim) -> store.Death:
    return store.Death(claim, "RUNTIME_BUG", "x", False, "non_retryable", "stack", "{}", 1, None)
