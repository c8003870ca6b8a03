"""The state machine as the database keeps it: every pair of statuses, tried by hand-typed SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest

from penstock.contract.policies import Policy
from penstock.contract.statuses import MOVES, RANKS, TERMINAL, Move, Status
from penstock.store import types

# How a careful person would type each status: the columns that its constraints ask for.
COLUMNS: Final = {
    Status.QUEUED: "status = 'queued', lease_expires_at = null, finished_at = null",
    Status.PROCESSING: "status = 'processing', claim_seq = claim_seq + 1, claimed_by = 'hand', finished_at = null, "
    "claimed_at = penstock.now(), lease_expires_at = penstock.now() + interval '5 minutes'",
    Status.BATCH_SUBMITTED: "status = 'batch_submitted', lease_expires_at = null, finished_at = null",
    Status.COMPLETED: "status = 'completed', lease_expires_at = null, finished_at = penstock.now()",
    Status.FAILED: "status = 'failed', lease_expires_at = null, finished_at = penstock.now(), "
    "last_error_code = 'RUNTIME_BUG', last_error_at = penstock.now()",
    Status.CANCELED: "status = 'canceled', lease_expires_at = null, finished_at = penstock.now()",
}
WAY: Final = {  # the legal way to each status
    Status.QUEUED: (),
    Status.PROCESSING: (Status.PROCESSING,),
    Status.BATCH_SUBMITTED: (Status.PROCESSING, Status.BATCH_SUBMITTED),
    Status.COMPLETED: (Status.PROCESSING, Status.COMPLETED),
    Status.FAILED: (Status.PROCESSING, Status.FAILED),
    Status.CANCELED: (Status.CANCELED,),
}
LEGAL: Final = {(status, after) for (status, _), after in MOVES.items()}


class Hand:
    """Somebody with psql and the rights of the owner."""

    def __init__(self, connection: asyncpg.Connection[Any]) -> None:
        self.connection = connection

    async def job(self, status: Status = Status.QUEUED) -> UUID:
        job_id: UUID = await self.connection.fetchval("select penstock.enqueue('plain')")
        for step in WAY[status]:
            await self.move(job_id, step)
        return job_id

    async def move(self, job_id: UUID, status: Status) -> None:
        await self.set(job_id, COLUMNS[status])

    async def set(self, job_id: UUID, columns: str) -> None:
        await self.connection.execute(f"update penstock.jobs set {columns} where job_id = $1", job_id)

    async def status(self, job_id: UUID) -> str:
        found: str = await self.connection.fetchval("select status from penstock.jobs where job_id = $1", job_id)
        return found


@pytest.fixture
async def hand(dsn: str) -> AsyncIterator[Hand]:
    connection = await asyncpg.connect(dsn)
    await types.sync(connection, [Policy("plain")])
    yield Hand(connection)
    await connection.close()


@pytest.mark.contract("Q-18", "A-13", "D-50", "C-03")
@pytest.mark.parametrize("before", Status)
async def test_the_database_allows_exactly_the_moves_of_the_contract(hand: Hand, before: Status) -> None:
    for after in Status:
        job = await hand.job(before)
        if before is after:
            await hand.set(job, f"status = '{after}'")
        elif (before, after) in LEGAL:
            await hand.move(job, after)
        else:
            with pytest.raises(asyncpg.PostgresError, match=f"is {before} and cannot become {after}") as refused:
                await hand.move(job, after)
            assert refused.value.sqlstate == "PS001"
        assert await hand.status(job) == (after if before is after or (before, after) in LEGAL else before)


@pytest.mark.contract("A-13")
async def test_a_terminal_status_absorbs_whatever_is_tried(hand: Hand) -> None:
    for status in TERMINAL:
        job = await hand.job(status)
        for after in set(Status) - {status}:
            with pytest.raises(asyncpg.PostgresError, match="cannot become"):
                await hand.move(job, after)
        assert await hand.status(job) == status


@pytest.mark.contract("A-13")
def test_only_a_requeue_leads_to_a_lower_rank() -> None:
    back = {move for (status, move), after in MOVES.items() if RANKS[after] <= RANKS[status]}
    assert back == {Move.REQUEUE}


@pytest.mark.contract("Q-10", "Q-25")
async def test_a_seventh_status_is_refused(hand: Hand) -> None:
    job = await hand.job(Status.PROCESSING)
    for word in ("dead", "pending", "running", "QUEUED", ""):
        with pytest.raises(asyncpg.PostgresError, match="cannot become"):
            await hand.set(job, f"status = '{word}', lease_expires_at = null")
        with pytest.raises(asyncpg.CheckViolationError, match="jobs_status_known"):  # the trigger out of the way
            await hand.connection.execute(
                "alter table penstock.jobs disable trigger user; "
                f"update penstock.jobs set status = '{word}', lease_expires_at = null where job_id = '{job}'"
            )


@pytest.mark.contract("Q-18")
async def test_a_new_job_begins_queued_and_unclaimed(hand: Hand) -> None:
    insert = (
        "insert into penstock.jobs (job_id, created_at, updated_at, run_at, max_attempts, ready, job_type, stage, {}) "
        "values (gen_random_uuid(), now(), now(), now(), 1, true, 'plain', 'run', {})"
    )
    for column, value in (("status, finished_at", "'completed', now()"), ("claim_seq", "1")):
        with pytest.raises(asyncpg.PostgresError, match="a new job must be queued and unclaimed"):
            await hand.connection.execute(insert.format(column, value))


@pytest.mark.contract("C-03", "C-31")
async def test_the_fence_rises_with_every_claim_and_never_falls(hand: Hand) -> None:
    job = await hand.job(Status.PROCESSING)
    with pytest.raises(asyncpg.PostgresError, match="its fence"):
        await hand.set(job, "claim_seq = claim_seq - 1")
    await hand.move(job, Status.QUEUED)
    without_a_new_fence = COLUMNS[Status.PROCESSING].replace("claim_seq = claim_seq + 1, ", "")
    with pytest.raises(asyncpg.PostgresError, match="cannot become processing"):
        await hand.set(job, without_a_new_fence)
    await hand.move(job, Status.PROCESSING)
    assert await hand.connection.fetchval("select claim_seq from penstock.jobs where job_id = $1", job) == 2


@pytest.mark.contract("C-03")
async def test_a_provider_batch_is_written_once(hand: Hand) -> None:
    job = await hand.job(Status.PROCESSING)
    await hand.set(job, f"{COLUMNS[Status.BATCH_SUBMITTED]}, provider_batch_id = 'batch_1'")
    for change in ("'batch_2'", "null"):
        with pytest.raises(asyncpg.PostgresError, match="its first provider batch"):
            await hand.set(job, f"provider_batch_id = {change}")
    await hand.move(job, Status.COMPLETED)
    assert (
        await hand.connection.fetchval("select provider_batch_id from penstock.jobs where job_id = $1", job)
        == "batch_1"
    )


@pytest.mark.contract("C-03")
async def test_the_identity_of_a_job_is_fixed(hand: Hand) -> None:
    job = await hand.job()
    for change in ("job_id = gen_random_uuid()", "job_type = 'x'", "created_at = now()", "idempotency_key = 'plain:k'"):
        with pytest.raises(asyncpg.PostgresError, match="its identity"):
            await hand.set(job, change)


@pytest.mark.contract("C-03")
async def test_a_job_that_has_not_ended_cannot_be_deleted(hand: Hand) -> None:
    for status in set(Status) - TERMINAL:
        job = await hand.job(status)
        with pytest.raises(asyncpg.PostgresError, match="cannot be deleted"):
            await hand.connection.execute("delete from penstock.jobs where job_id = $1", job)


@pytest.mark.contract("Q-26")
async def test_every_change_moves_updated_at_forward(hand: Hand) -> None:
    job = await hand.job()
    seen = [await hand.connection.fetchval("select updated_at from penstock.jobs where job_id = $1", job)]
    for columns in ("priority = 3", COLUMNS[Status.PROCESSING], COLUMNS[Status.COMPLETED]):
        await hand.set(job, columns)
        seen.append(await hand.connection.fetchval("select updated_at from penstock.jobs where job_id = $1", job))
    assert sorted(set(seen)) == seen


@pytest.mark.contract("A-12")
async def test_an_admin_cancels_from_every_status_that_is_not_terminal(hand: Hand) -> None:
    for status in Status:
        job = await hand.job(status)
        answer = await hand.connection.fetchval("select penstock.cancel($1, 'admin', 'not wanted')", job)
        assert answer == await hand.status(job) == (status if status in TERMINAL else Status.CANCELED)
