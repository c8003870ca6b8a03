"""What an enqueue leaves in the table."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.enqueue.conftest import Office, working


@pytest.mark.contract("Q-07", "Q-29")
async def test_one_enqueue_is_one_row_that_no_attempt_was_spent_on(office: Office) -> None:
    job_id = await office.app.enqueue("noop", {"n": 1})

    rows = await office.owner.fetch("select job_id, status, attempt_count, claimed_by from penstock.jobs")
    assert [tuple(row) for row in rows] == [(job_id, "queued", 0, None)]


@pytest.mark.contract("Q-27", "C-18")
async def test_a_job_without_a_time_is_due_when_it_was_enqueued(office: Office) -> None:
    now = await office.job(await office.app.enqueue("noop", {}))
    moment = datetime(2029, 2, 28, 23, 59, 59, 123456, tzinfo=UTC)
    later = await office.job(await office.app.enqueue("noop", {}, run_at=moment))

    assert now["run_at"] == now["created_at"]
    assert now["ready"]
    assert later["run_at"] == moment
    assert not later["ready"]


@pytest.mark.contract("Q-61")
async def test_a_job_is_eligible_from_its_time_on_by_the_clock_of_the_database(office: Office) -> None:
    """The truth table at the moment of the enqueue: earlier, now, later; whatever this process thinks the time is."""
    await office.owner.execute("insert into penstock.clock (shift) values ('400 days')")
    there = datetime.now(UTC) + timedelta(days=400)
    ready = {
        "past": (await office.job(await office.app.enqueue("noop", {}, run_at=there - timedelta(hours=1))))["ready"],
        "no time": (await office.job(await office.app.enqueue("noop", {})))["ready"],
        "no delay": (await office.job(await office.app.enqueue("noop", {}, delay=0)))["ready"],
        "future": (await office.job(await office.app.enqueue("noop", {}, run_at=there + timedelta(hours=1))))["ready"],
        "delay": (await office.job(await office.app.enqueue("noop", {}, delay=1)))["ready"],
    }
    assert ready == {"past": True, "no time": True, "no delay": True, "future": False, "delay": False}
    assert await office.owner.fetchval(
        "select bool_and(ready = (status = 'queued' and run_at <= created_at)) from penstock.jobs"
    )


@pytest.mark.contract("D-17", "D-23", "C-17")
async def test_several_types_share_one_table_and_a_new_one_needs_nothing_but_its_declaration(office: Office) -> None:
    ran = asyncio.Event()

    @office.app.job("vectors", channel="litevault_jobs", attempts=9, priority=-3)
    async def vectors(args: dict[str, Any]) -> None:
        ran.set()

    await office.app.enqueue("enrichment", {"item_id": 1})
    job = await office.job(await office.app.enqueue("vectors", {"item_id": 1}))

    assert (job["job_type"], job["max_attempts"], job["priority"]) == ("vectors", 9, -3)
    assert await office.owner.fetchval("select count(distinct job_type) from penstock.jobs") == 2
    assert await office.owner.fetchval("select policy from penstock.types where job_type = 'vectors'") is not None
    async with working(office.app, "vectors"), asyncio.timeout(10):
        await ran.wait()


@pytest.mark.contract("C-17", "D-25", "C-18")
async def test_the_columns_have_the_names_types_and_widths_of_the_contract(office: Office) -> None:
    rows = await office.owner.fetch(
        "select column_name, data_type, character_maximum_length as width, is_nullable, column_default "
        "from information_schema.columns where table_schema = 'penstock' and table_name = 'jobs'"
    )
    columns = {row["column_name"]: row for row in rows}

    assert (columns["job_type"]["data_type"], columns["job_type"]["width"]) == ("character varying", 50)
    assert columns["job_type"]["is_nullable"] == "NO"
    assert columns["run_at"]["data_type"] == "timestamp with time zone"
    assert columns["run_at"]["is_nullable"] == "NO"
    assert columns["run_at"]["column_default"] == "penstock.now()"
    assert columns["attempt_count"]["column_default"] == "0"
    assert {"claimed_by", "claimed_at", "lease_expires_at", "last_error_code", "last_error_message"} <= set(columns)
    assert {"not_before_at", "locked_by", "locked_at", "last_error", "task"}.isdisjoint(columns)
