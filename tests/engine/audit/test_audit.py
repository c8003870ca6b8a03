"""The audit: every move of an audited job leaves a row, whoever makes it, and the rows stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Audit, Cancel, Failed, FailureClass, Job, Penstock, Schedule, Snooze
from penstock.store import audit, jobs
from penstock.testing import Harness


@pytest.fixture
async def h(dsn: str) -> AsyncIterator[Harness]:
    app = Penstock(dsn)
    full: dict[str, Any] = {"audit": Audit.FULL, "backoff": Schedule([60])}
    plans: dict[UUID, list[BaseException]] = {}

    async def follow(job: Job, args: dict[str, Any]) -> None:
        plan = plans.setdefault(job.job_id, [_outcome(name) for name in args.get("plan", [])])
        if plan:
            raise plan.pop(0)

    app.job("audited", attempts=2, **full)(follow)
    app.job("summary", attempts=2, backoff=Schedule([60]))(follow)
    staged = app.type("staged", stages=("one", "two"), **full)
    staged.stage("one")(follow)
    staged.stage("two")(follow)
    async with Harness(app) as made:
        yield made


def _outcome(name: str) -> BaseException:
    match name:
        case "snooze":
            return Snooze(timedelta(minutes=1))
        case "cancel":
            return Cancel("not wanted")
        case _:
            return Failed(FailureClass(name))


async def moves(h: Harness, job_id: UUID) -> list[tuple[str | None, str, str | None]]:
    return [(entry.from_status, entry.to_status, entry.code) for entry in await audit.trail(h.app.pool, job_id)]


CLAIMED = ("queued", "processing", None)


@pytest.mark.contract("A-07", "Q-76")
@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ([], [CLAIMED, ("processing", "completed", None)]),
        (["snooze"], [CLAIMED, ("processing", "queued", None), CLAIMED, ("processing", "completed", None)]),
        (["cancel"], [CLAIMED, ("processing", "canceled", "CANCELED")]),
        (["NOT_FOUND"], [CLAIMED, ("processing", "failed", "NOT_FOUND")]),
        (
            ["RATE_LIMITED", "NETWORK_RESET"],
            [CLAIMED, ("processing", "queued", "RATE_LIMITED"), CLAIMED, ("processing", "failed", "NETWORK_RESET")],
        ),
    ],
    ids=["completes", "snoozes", "cancels", "dies", "retries"],
)
async def test_every_move_leaves_a_row(h: Harness, plan: list[str], expected: list[Any]) -> None:
    job = await h.enqueue("audited", {"plan": plan})
    await h.work_until_idle()
    assert await moves(h, job) == [(None, "queued", None), *expected]


@pytest.mark.contract("A-07", "Q-80")
async def test_a_row_tells_job_statuses_attempt_run_worker_code_and_time(h: Harness) -> None:
    job = await h.enqueue("audited", {"plan": ["RATE_LIMITED"]})
    await h.work_until_idle()
    created, claimed, back, again, done = await h.trail(job)
    assert {row["job_id"] for row in (created, claimed, back, again, done)} == {job}
    assert [row["attempt"] for row in (created, claimed, back, again, done)] == [1, 1, 1, 2, 2]
    assert [row["claim_seq"] for row in (created, claimed, back, again, done)] == [0, 1, 1, 2, 2]
    assert (created["worker_id"], created["run_id"]) == (None, None)
    assert {row["worker_id"] for row in (claimed, back, again, done)} == {"harness"}
    assert claimed["run_id"] == back["run_id"] != again["run_id"] == done["run_id"]
    assert back["code"] == "RATE_LIMITED"
    times = [row["at"] for row in (created, claimed, back, again, done)]
    assert times == sorted(times)
    row = await h.job(job)
    assert (row["status"], row["attempt_count"], row["finished_at"]) == ("completed", 1, done["at"])
    assert row["created_at"] <= row["claimed_at"] <= row["finished_at"] == row["updated_at"]


@pytest.mark.contract("A-07")
async def test_each_stage_passed_leaves_a_row(h: Harness) -> None:
    job = await h.enqueue("staged", {})
    await h.drain()
    rows = [(row["from_status"], row["to_status"], row["stage"]) for row in await h.trail(job)]
    assert rows == [
        (None, "queued", "one"),
        ("queued", "processing", "one"),
        ("processing", "processing", "one"),
        ("processing", "completed", "two"),
    ]


@pytest.mark.contract("A-07")
async def test_a_move_made_by_hand_typed_sql_leaves_its_row_too(h: Harness) -> None:
    job = await h.enqueue("audited", {})
    await h.app.pool.execute(
        "update penstock.jobs set status = 'processing', claim_seq = claim_seq + 1, claimed_by = 'psql', "
        "claimed_at = penstock.now(), lease_expires_at = penstock.now() + interval '1 minute' where job_id = $1",
        job,
    )
    await h.app.pool.execute(
        "update penstock.jobs set status = 'completed', finished_at = penstock.now(), lease_expires_at = null "
        "where job_id = $1",
        job,
    )
    assert await moves(h, job) == [(None, "queued", None), CLAIMED, ("processing", "completed", None)]
    assert [row["worker_id"] for row in await h.trail(job)] == [None, "psql", "psql"]


@pytest.mark.contract("A-12")
async def test_a_cancel_by_an_operator_leaves_its_row(h: Harness) -> None:
    job = await h.enqueue("audited", {})
    await jobs.cancel(h.app.pool, job, who="ann", why="not wanted")
    assert (await moves(h, job))[-1] == ("queued", "canceled", "CANCELED")


@pytest.mark.contract("Q-76")
async def test_jobs_of_one_provider_batch_keep_their_own_trail_and_end(h: Harness) -> None:
    ids = [await h.enqueue("audited", {"n": n}) for n in range(3)]
    pool = h.app.pool
    await pool.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'w', claimed_at = penstock.now(), "
        "lease_expires_at = penstock.now() + interval '1 minute'"
    )
    await pool.execute(
        "update penstock.jobs set status = 'batch_submitted', lease_expires_at = null, provider_batch_id = 'batch_1'"
    )
    for job, end in zip(ids, ("completed", "failed", "canceled"), strict=True):
        await pool.execute(
            "update penstock.jobs set status = $2, finished_at = penstock.now(), last_error_at = penstock.now(), "
            "last_error_code = 'BATCH_ITEM_MISSING' where job_id = $1",
            job,
            end,
        )
    for job, end in zip(ids, ("completed", "failed", "canceled"), strict=True):
        trail = [to for _, to, _ in await moves(h, job)]
        assert trail == ["queued", "processing", "batch_submitted", end]
        assert await h.status(job) == end


@pytest.mark.contract("A-07")
async def test_the_audit_cannot_be_rewritten_by_anybody(h: Harness, role_dsn: Any) -> None:
    job = await h.enqueue("audited", {})
    await h.drain()
    before = await h.trail(job)
    for statement in (
        "update penstock.job_events set code = null",
        "delete from penstock.job_events",
        "truncate penstock.job_events",
    ):
        with pytest.raises(asyncpg.PostgresError, match="append-only") as refused:
            await h.app.pool.execute(statement)
        assert refused.value.sqlstate == "PS002"
        for role in ("penstock_worker", "penstock_operator", "penstock_orchestrator", "penstock_frontend"):
            other = await asyncpg.connect(role_dsn(role))
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await other.execute(f"set penstock.pruning = on; {statement}")
            await other.close()
    assert await h.trail(job) == before


async def test_a_summary_type_leaves_no_rows_but_tells_its_end_on_the_job(h: Harness) -> None:
    job = await h.enqueue("summary", {"plan": ["RATE_LIMITED"]})
    await h.work_until_idle()
    assert await h.trail(job) == []
    row = await h.job(job)
    assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("completed", 1, "RATE_LIMITED")


async def test_moves_by_many_at_once_are_all_there(h: Harness) -> None:
    ids = [await h.enqueue("audited", {}) for _ in range(50)]
    await asyncio.gather(h.drain("a"), h.drain("b"))
    total = await h.app.pool.fetchval("select count(*) from penstock.job_events")
    assert total == 3 * len(ids)
