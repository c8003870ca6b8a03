"""A bulk enqueue keeps every promise of a single one: all or none, one id per row, keys, order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

import asyncpg
import pytest

from penstock.contract.errors import IdempotencyKeyReused, PayloadRejected
from penstock.engine.drafts import BREATH_JOBS, NOW, SET_JOBS
from tests.engine.enqueue.conftest import Office, until_waiting


@pytest.mark.contract("C-65")
async def test_every_row_gets_an_id_and_the_jobs_run_in_the_order_given(office: Office) -> None:
    count = 2 * SET_JOBS + 7
    ids = await office.app.enqueue_many("noop", [{"n": n} for n in range(count)])

    rows = await office.owner.fetch(
        "select job_id, (payload->>'n')::integer as n from penstock.jobs order by priority, created_at, job_id"
    )
    assert [row["n"] for row in rows] == list(range(count))
    assert [row["job_id"] for row in rows] == ids


@pytest.mark.contract("C-65", "C-48")
async def test_known_keys_and_keys_given_twice_answer_with_the_job_they_have(office: Office) -> None:
    known = await office.app.enqueue("noop", {"n": 1}, key="a")

    ids = await office.app.enqueue_many(
        "noop", [{"n": 1}, {"n": 2}, {"n": 2}, {"n": 3}, {"n": 3}], keys=["a", "b", "b", None, None]
    )

    assert ids[0] == known
    assert ids[1] == ids[2] != known
    assert len(set(ids)) == 4, "two jobs without a key are two jobs"
    assert await office.count() == 4


@pytest.mark.contract("C-65")
async def test_a_key_given_twice_across_the_sets_of_one_bulk_answers_too(office: Office) -> None:
    keys = [f"k{n}" for n in range(SET_JOBS)] + ["k0", "new"]
    ids = await office.app.enqueue_many("noop", [{"n": 0}] * len(keys), keys=keys)

    assert ids[SET_JOBS] == ids[0]
    assert await office.count() == SET_JOBS + 1


@pytest.mark.contract("C-65")
async def test_one_key_with_other_arguments_refuses_the_whole_bulk(office: Office) -> None:
    await office.app.enqueue("noop", {"n": 1}, key="a")

    for payloads, keys in (
        ([{"n": 7}, {"n": 2}], ["new", "a"]),
        ([{"n": 7}, {"n": 8}], ["new", "new"]),
        ([{"n": n} for n in range(SET_JOBS + 1)], [None] * SET_JOBS + ["a"]),
    ):
        with pytest.raises(IdempotencyKeyReused):
            await office.app.enqueue_many("noop", payloads, keys=keys)

    assert await office.count() == 1


async def test_a_payload_found_wrong_while_others_are_on_their_way_undoes_them(office: Office) -> None:
    payloads: list[object] = [{"n": n} for n in range(3 * SET_JOBS)]
    payloads.append({"n": b"wrong"})

    with pytest.raises(PayloadRejected):
        await office.app.enqueue_many("noop", payloads)

    assert await office.count() == 0
    assert await office.pokes() == []
    assert await office.app.enqueue_many("noop", [{"n": 1}]), "the connection is as good as before"


async def test_a_bulk_that_is_cancelled_leaves_nothing_and_gives_its_connection_back(office: Office) -> None:
    async with office.another(pool_max=2) as app:
        await app.enqueue("noop", {"n": 0})
        holder = await asyncpg.connect(office.dsn)
        with suppress(ZeroDivisionError):
            async with holder.transaction():
                await app.enqueue("noop", {"n": 0}, key="k", connection=holder)
                bulk = asyncio.create_task(app.enqueue_many("noop", [{"n": 0}] * 5000, keys=["k"] + [None] * 4999))
                await until_waiting(office.owner)
                bulk.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await bulk
                raise ZeroDivisionError
        await holder.close()
        for _ in range(5):
            await app.enqueue("noop", {"n": 1})

    assert await office.count() == 6


async def test_two_bulks_with_the_same_keys_in_opposite_order_wait_for_each_other_and_never_deadlock(
    office: Office,
) -> None:
    """Both are stopped in the middle, at a key that a third one holds."""
    holder, one, two = [await asyncpg.connect(office.dsn) for _ in range(3)]
    held = holder.transaction()
    await held.start()
    await office.app.enqueue("noop", {"n": 0}, key="m", connection=holder)
    bulks = []
    for waiting, (caller, keys) in enumerate([(one, ["a", "m", "z"]), (two, ["z", "m", "a"])], start=1):
        bulks.append(asyncio.create_task(office.app.enqueue_many("noop", [{}] * 3, keys=keys, connection=caller)))
        await until_waiting(office.owner, waiting)
    await held.rollback()

    first, second = await asyncio.gather(*bulks)

    assert first == second[::-1]
    for connection in (holder, one, two):
        await connection.close()


async def test_a_bulk_may_be_deferred_by_the_clock_of_the_database(office: Office) -> None:
    await office.owner.execute("insert into penstock.clock (shift) values ('-3 days')")
    ids = await office.app.enqueue_many("noop", [{"n": 1}, {"n": 2}], delay=timedelta(hours=2))

    for job in [await office.job(job_id) for job_id in ids]:
        assert job["run_at"] - job["created_at"] == timedelta(hours=2)
        assert not job["ready"]


async def test_an_empty_bulk_is_no_work(office: Office) -> None:
    assert await office.app.enqueue_many("noop", []) == []
    async with office.app.transaction() as tx:
        assert await office.app.enqueue_many("noop", [], keys=[], connection=tx) == []
    assert await office.count() == 0


async def test_a_type_is_announced_once_and_then_no_more(office: Office) -> None:
    @office.app.job("fresh")
    async def fresh(args: dict[str, int]) -> None: ...

    async with office.app.transaction() as tx:
        await office.app.enqueue_many("fresh", [{"n": 1}], connection=tx)
        await office.app.enqueue("fresh", {"n": 2})
    before = await office.owner.fetchval("select synced_at from penstock.types where job_type = 'fresh'")
    await office.owner.execute(
        "update penstock.types set policy = policy || '{\"marked\": 1}' where job_type = 'fresh'"
    )
    await office.app.enqueue_many("fresh", [{"n": 3}])
    await office.app.enqueue("fresh", {"n": 4})

    assert await office.owner.fetchval("select synced_at from penstock.types where job_type = 'fresh'") == before
    assert await office.owner.fetchval("select policy->>'marked' from penstock.types where job_type = 'fresh'") == "1"
    assert await office.count("fresh") == 4


def test_a_set_is_encoded_in_small_steps_so_that_the_callers_other_tasks_get_their_turns(office: Office) -> None:
    bulk = office.app._drafts.many("echo", [{"n": n} for n in range(SET_JOBS)], keys=None, limit_keys=None, when=NOW)

    steps = list(bulk.breathing_sets())

    assert [part is None for part in steps] == [True] * (SET_JOBS // BREATH_JOBS - 1) + [False]
