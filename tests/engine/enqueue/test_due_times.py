"""A due time in the past means now, however long ago it was; no job has a time that a worker cannot read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import asyncpg
import pytest

from penstock import Penstock
from penstock.testing import Harness
from tests.engine.enqueue.conftest import Office, declare_types

BEFORE_YEAR_ONE = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))  # in UTC it is the year 1 before Christ


@pytest.mark.contract("Q-61", "Q-27")
async def test_a_job_that_was_due_before_the_calendar_begins_runs_now(dsn: str) -> None:
    async with Harness(declare_types(Penstock(dsn)), dsn) as harness:
        jobs = [
            await harness.enqueue("noop", run_at=BEFORE_YEAR_ONE),
            await harness.enqueue("noop", run_at=BEFORE_YEAR_ONE, key="k"),
            *await harness.app.enqueue_many("noop", [{}], run_at=BEFORE_YEAR_ONE),
            *await harness.app.enqueue_many("noop", [{"n": 2}], run_at=BEFORE_YEAR_ONE, keys=["m"]),
        ]
        async with harness.connection() as connection:
            jobs += [
                await connection.fetchval(
                    "select penstock.enqueue('noop', run_at => $1::text::timestamptz)", longer_ago
                )
                for longer_ago in ("0100-01-01 00:00:00+00 BC", "-infinity")
            ]

        await harness.drain()

        assert [await harness.status(job_id) for job_id in jobs] == ["completed"] * len(jobs)


@pytest.mark.contract("Q-61", "Q-27")
async def test_a_time_that_has_passed_is_the_time_of_the_enqueue(office: Office) -> None:
    past = datetime.now(UTC) - timedelta(days=1)
    one = await office.app.enqueue("noop", {}, run_at=past)
    (many,) = await office.app.enqueue_many("noop", [{}], run_at=past)

    for job in (await office.job(one), await office.job(many)):
        assert job["run_at"] == job["created_at"]
        assert job["ready"]


@pytest.mark.parametrize("column", ["run_at", "created_at"])
@pytest.mark.parametrize("moment", ["-infinity", "0001-01-01 00:00:00+14", "10000-01-01 00:00:00+00", "infinity"])
async def test_sql_typed_by_hand_cannot_store_a_time_that_no_worker_could_read(
    office: Office, column: str, moment: str
) -> None:
    times = {"run_at": "now", "created_at": "now", column: moment}

    with pytest.raises(asyncpg.CheckViolationError, match="jobs_times_readable"):
        await office.owner.execute(
            "insert into penstock.jobs (job_id, run_at, created_at, updated_at, max_attempts, ready, job_type, stage) "
            "values (penstock.uuid7(), $1::text::timestamptz, $2::text::timestamptz, now(), 1, true, 'noop', 'run')",
            times["run_at"],
            times["created_at"],
        )
