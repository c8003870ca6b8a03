"""The lock of a unit: taken before the status changes, never by home, and no obstacle for others."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from penstock.apps.rewrite import repository
from penstock.apps.rewrite.models import JOB_TYPE
from penstock.store import claims
from penstock.store.roles import FRONTEND, WORKER
from tests.apps.rewrite.estate import HELD_BY, LEASE, Estate, Unit
from tests.support.squatters import squatter, unhindered

LOCK = "pg_advisory_lock(rewrite.unit_lock($1, $2))"
MARK_SUBMITTED = """
update penstock.jobs set status = 'batch_submitted', lease_expires_at = null, claimed_by = null, claimed_at = null,
       provider_batch_id = 'b' where job_id = $1
"""


async def hold(connection: asyncpg.Connection[Any], unit: Unit) -> None:
    await connection.execute(f"select {LOCK}", unit.request_id, unit.home.recipient)


@pytest.mark.contract("A-39", "C-30", "A-59")
async def test_a_claim_leaves_busy_units_queued_and_takes_the_rest_of_the_home(estate: Estate) -> None:
    home = await estate.home()
    units = [await estate.queued(home) for _ in range(6)]
    busy = {units[0].job, units[3].job}
    for unit in units:
        if unit.job in busy:
            await hold(estate.owner, unit)

    taken = await estate.claim()

    assert {claim.job_id for claim in taken} == {unit.job for unit in units} - busy
    rows = await estate.owner.fetch("select job_id, status, claim_seq, attempt_count from penstock.jobs")
    assert {row["job_id"] for row in rows if row["status"] == "queued"} == busy
    assert {(row["claim_seq"], row["attempt_count"]) for row in rows if row["job_id"] in busy} == {(0, 0)}
    await estate.owner.execute("select pg_advisory_unlock_all()")
    assert {claim.job_id for claim in await estate.claim()} == busy


@pytest.mark.contract("A-39", "L-46")
async def test_while_a_claim_is_being_made_nobody_else_has_the_lock_of_its_unit(estate: Estate) -> None:
    unit = await estate.queued(await estate.home())
    worker = await estate.login(WORKER)
    ask = "select pg_try_advisory_lock(rewrite.unit_lock($1, $2))"
    async with worker.transaction():
        assert len(await estate.claim()) == 1
        assert not await estate.owner.fetchval(ask, unit.request_id, unit.home.recipient)
    assert await estate.owner.fetchval(ask, unit.request_id, unit.home.recipient)


@pytest.mark.contract("C-30")
async def test_a_gated_claim_leaves_busy_units_too(estate: Estate) -> None:
    home = await estate.home()
    busy, free = await estate.queued(home), await estate.queued(home)
    await estate.owner.execute("update penstock.types set max_running = 5 where job_type = 'complaint_rewrite'")
    await hold(estate.owner, busy)
    worker = await estate.login(WORKER)

    taken = await claims.take_gated(worker, JOB_TYPE, LEASE, limit=10, worker=HELD_BY, run=uuid4())
    assert [claim.job_id for claim in taken] == [free.job]


@pytest.mark.contract("C-30")
async def test_the_hand_over_to_a_batch_and_the_output_wait_for_the_lock(estate: Estate) -> None:
    unit, _ = await estate.claimed(await estate.home())
    worker = await estate.login(WORKER)
    key = await estate.key(unit.home.home_id)
    await hold(estate.owner, unit)
    await worker.execute("set lock_timeout = '100ms'")
    with pytest.raises(asyncpg.LockNotAvailableError):
        await worker.execute(MARK_SUBMITTED, unit.job)
    with pytest.raises(asyncpg.LockNotAvailableError):
        async with estate.at(WORKER, unit.home.home_id) as connection:
            await estate.fill(connection, key, unit)
    await estate.owner.execute("select pg_advisory_unlock_all()")
    await worker.execute(MARK_SUBMITTED, unit.job)
    async with estate.at(WORKER, unit.home.home_id) as connection:
        assert await estate.fill(connection, key, unit)


@pytest.mark.contract("L-46", "A-59")
async def test_the_lock_depends_on_request_and_recipient_and_on_no_home(estate: Estate) -> None:
    home = await estate.home()
    one, other = await estate.queued(home), await estate.queued(home)
    ask = "select rewrite.unit_lock($1, $2)"
    found = [await estate.owner.fetchval(ask, unit.request_id, home.recipient) for unit in (one, other, one)]
    assert found[0] == found[2] != found[1]
    arguments = await estate.owner.fetchval(
        "select pg_get_function_arguments('rewrite.unit_lock(uuid,uuid)'::regprocedure)"
    )
    assert "home" not in arguments


@pytest.mark.contract("A-39", "C-30", "C-68")
async def test_a_login_that_knows_both_ids_of_a_unit_cannot_hold_it_up(estate: Estate) -> None:
    home = await estate.home()
    unit, other = await estate.queued(home), await estate.queued(home)
    key, ids = await estate.key(home.home_id), (unit.request_id, home.recipient)
    async with squatter(estate.role_dsn(FRONTEND), estate.owner) as frontend:
        for name in ("$1::uuid::text || ':' || $2::uuid::text", "'rewrite unit:' || $1::uuid || ':' || $2::uuid"):
            await frontend.take(f"hashtextextended({name}, 0)", *ids)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await frontend.take("rewrite.unit_lock($1, $2)", *ids)
        await frontend.take_as_known("rewrite.unit_lock($1, $2)", other.request_id, home.recipient)

        assert [claim.job_id for claim in await estate.claim()] == [unit.job], "the control: the other is held up"
        await unhindered(estate.submit(unit))
        async with estate.at(WORKER, home.home_id) as connection:
            assert await unhindered(estate.fill(connection, key, unit))


async def test_a_unit_is_held_only_under_the_claim_that_has_its_job(estate: Estate) -> None:
    unit, claim = await estate.claimed(await estate.home())
    async with estate.at(WORKER, unit.home.home_id) as connection:
        held = [
            await repository.hold_unit(connection, unit.job, fence, unit.request_id, unit.home.recipient)
            for fence in (claim.claim_seq, claim.claim_seq + 1)
        ]
    assert held == [True, False]
