"""An idempotency key stands for one job, whoever asks for it and however often."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock.contract.errors import IdempotencyKeyReused
from tests.engine.enqueue.conftest import Office, until_waiting


async def _prune(office: Office, job_id: UUID) -> None:
    """What retention does with a finished job: its key is kept, its row goes."""
    async with office.owner.transaction():
        await office.owner.execute(
            "insert into penstock.kept_keys (idempotency_key, job_id, payload) "
            "select idempotency_key, job_id, payload from penstock.jobs where job_id = $1",
            job_id,
        )
        await office.owner.execute("select penstock.cancel($1, 'test', null)", job_id)
        await office.owner.execute("delete from penstock.jobs where job_id = $1", job_id)


@pytest.mark.contract("C-65", "C-48")
async def test_twenty_callers_at_once_with_one_key_get_one_job(office: Office) -> None:
    async with office.another(pool_max=20) as app:
        gate = await asyncpg.connect(office.dsn)
        async with gate.transaction():  # holds the key, so that all twenty meet at it
            with suppress(ZeroDivisionError):
                async with gate.transaction():
                    await app.enqueue("noop", {"n": 0}, key="k", connection=gate)
                    callers = [asyncio.create_task(app.enqueue("noop", {"n": 1}, key="k")) for _ in range(20)]
                    await until_waiting(office.owner, 20)
                    raise ZeroDivisionError
        ids = await asyncio.gather(*callers)
        await gate.close()

    assert len(set(ids)) == 1
    assert await office.count() == 1
    assert await office.payload(ids[0]) == {"n": 1}


@pytest.mark.contract("C-65")
async def test_when_the_first_caller_rolls_back_the_second_makes_the_job(office: Office) -> None:
    first = await asyncpg.connect(office.dsn)
    transaction = first.transaction()
    await transaction.start()
    lost = await office.app.enqueue("noop", {"n": 1}, key="k", connection=first)
    second = asyncio.create_task(office.app.enqueue("noop", {"n": 2}, key="k"))
    await until_waiting(office.owner)
    assert not second.done(), "the second caller waits for the first one's outcome"
    await transaction.rollback()

    found = await second

    assert found != lost
    assert await office.payload(found) == {"n": 2}
    assert await office.count() == 1
    await first.close()


@pytest.mark.contract("C-65")
async def test_when_the_first_caller_commits_the_second_gets_its_job(office: Office) -> None:
    first = await asyncpg.connect(office.dsn)
    transaction = first.transaction()
    await transaction.start()
    made = await office.app.enqueue("noop", {"n": 1}, key="k", connection=first)
    second = asyncio.create_task(office.app.enqueue("noop", {"n": 1}, key="k"))
    await until_waiting(office.owner)
    await transaction.commit()

    assert await second == made
    await first.close()


@pytest.mark.contract("C-65")
async def test_the_same_key_with_other_arguments_is_refused_and_the_job_stays(office: Office) -> None:
    job_id = await office.app.enqueue("noop", {"a": 1, "b": [1, 2]}, key="k")

    assert await office.app.enqueue("noop", {"b": [1, 2], "a": 1}, key="k") == job_id, (
        "order of members is no difference"
    )
    for other in ({"a": 1}, {"a": 1, "b": [2, 1]}, {"a": "1", "b": [1, 2]}, None):
        with pytest.raises(IdempotencyKeyReused):
            await office.app.enqueue("noop", other, key="k")
    assert await office.payload(job_id) == {"a": 1, "b": [1, 2]}
    assert await office.count() == 1


@pytest.mark.contract("C-65")
async def test_two_types_never_answer_for_each_other(office: Office) -> None:
    noop = await office.app.enqueue("noop", {"n": 1}, key="k")
    other = await office.app.enqueue("other", {"n": 2}, key="k")
    sly = await office.app.enqueue("noop", {"n": 3}, key="noop:k")

    assert len({noop, other, sly}) == 3
    assert (await office.job(noop))["idempotency_key"] == "noop:k"


@pytest.mark.contract("C-65", "C-48")
async def test_a_key_answers_whatever_became_of_its_job(office: Office) -> None:
    job_id = await office.app.enqueue("noop", {"n": 1}, key="k")
    await office.owner.execute("select penstock.cancel($1, 'test', null)", job_id)

    assert await office.app.enqueue("noop", {"n": 1}, key="k") == job_id


@pytest.mark.contract("C-65")
async def test_the_key_of_a_pruned_job_still_answers(office: Office) -> None:
    job_id = await office.app.enqueue("noop", {"n": 1}, key="k")
    await _prune(office, job_id)

    assert await office.app.enqueue("noop", {"n": 1}, key="k") == job_id
    assert await office.app.enqueue_many("noop", [{"n": 1}, {"n": 2}], keys=["k", None]) == [
        job_id,
        await office.owner.fetchval("select job_id from penstock.jobs"),
    ]
    with pytest.raises(IdempotencyKeyReused):
        await office.app.enqueue("noop", {"n": 9}, key="k")
    with pytest.raises(IdempotencyKeyReused):
        await office.app.enqueue_many("noop", [{"n": 9}], keys=["k"])
    assert await office.count() == 1


@pytest.mark.contract("C-65")
async def test_a_job_pruned_between_two_looks_is_not_made_again(office: Office) -> None:
    """The pruning is open while the caller comes: the caller waits for it, then answers with the pruned job."""
    job_id = await office.app.enqueue("noop", {"n": 1}, key="k")
    await office.owner.execute("select penstock.cancel($1, 'test', null)", job_id)
    pruning = office.owner.transaction()
    await pruning.start()
    await office.owner.execute(
        "insert into penstock.kept_keys (idempotency_key, job_id, payload) "
        "select idempotency_key, job_id, payload from penstock.jobs where job_id = $1",
        job_id,
    )
    await office.owner.execute("delete from penstock.jobs where job_id = $1", job_id)
    watch = await asyncpg.connect(office.dsn)
    callers = [
        asyncio.create_task(office.app.enqueue("noop", {"n": 1}, key="k")),
        asyncio.create_task(office.app.enqueue_many("noop", [{"n": 1}], keys=["k"])),
    ]
    await until_waiting(watch, 2)
    await pruning.commit()

    one, many = await asyncio.gather(*callers)

    assert one == job_id
    assert many == [job_id]
    assert await office.count() == 0
    await watch.close()


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("since", ["pruned", "made"])
@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
@pytest.mark.contract("C-65")
async def test_a_caller_whose_snapshot_is_too_old_must_try_again_and_makes_no_second_job(
    office: Office, isolation: Any, since: str, bulk: bool
) -> None:
    if since == "pruned":
        known = await office.app.enqueue("noop", {"n": 1}, key="k")
    caller = await asyncpg.connect(office.dsn)

    async def enqueue() -> UUID:
        if bulk:
            return (await office.app.enqueue_many("noop", [{"n": 1}], keys=["k"], connection=caller))[0]
        return await office.app.enqueue("noop", {"n": 1}, key="k", connection=caller)

    old = caller.transaction(isolation=isolation)
    await old.start()
    await caller.fetchval("select count(*) from penstock.jobs")  # the snapshot is taken
    if since == "pruned":
        await _prune(office, known)
    else:
        known = await office.app.enqueue("noop", {"n": 1}, key="k")
    with pytest.raises(asyncpg.SerializationError):
        await enqueue()
    await old.rollback()

    async with caller.transaction(isolation=isolation):
        assert await enqueue() == known
    assert await office.count() == (0 if since == "pruned" else 1)
    await caller.close()


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
@pytest.mark.contract("C-65")
async def test_a_caller_with_its_own_snapshot_gets_new_jobs_and_known_ones(office: Office, isolation: Any) -> None:
    known = await office.app.enqueue("noop", {"n": 1}, key="known")
    caller = await asyncpg.connect(office.dsn)
    async with caller.transaction(isolation=isolation):
        assert await office.app.enqueue("noop", {"n": 1}, key="known", connection=caller) == known
        new = await office.app.enqueue("noop", {"n": 2}, key="new", connection=caller)
        assert await office.app.enqueue("noop", {"n": 2}, key="new", connection=caller) == new
        assert await office.app.enqueue_many(
            "noop", [{"n": 1}, {"n": 2}, {"n": 3}], keys=["known", "new", "newer"], connection=caller
        ) == [
            known,
            new,
            await caller.fetchval("select job_id from penstock.jobs where idempotency_key = 'noop:newer'"),
        ]
    await caller.close()

    assert await office.count() == 3
    assert await office.owner.fetchval("select count(*) from penstock.kept_keys") == 0
