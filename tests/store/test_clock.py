"""One clock for everybody: the database's, which only its owner can wind (C-22)."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from penstock import Penstock
from penstock.store import roles
from penstock.testing import Harness


@pytest.fixture
def db(dsn: str) -> Any:
    """The owner's connection."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.mark.contract("C-22")
def test_the_clock_is_one_stable_function_that_follows_the_statement(db: psycopg.Connection[Any]) -> None:
    (volatility,) = db.execute("select provolatile from pg_proc where oid = 'penstock.now'::regproc").fetchall()[0]
    assert volatility == "s", "a volatile clock can never be an index condition"
    with db.transaction():
        first, begun = db.execute("select penstock.now(), now()").fetchall()[0]
        second = db.execute("select penstock.now()").fetchall()[0][0]
        assert first >= begun
        assert second > first, "the time of the statement, not of the transaction"
        db.execute("insert into penstock.clock (shift) values ('1 hour')")
        assert db.execute("select penstock.now()").fetchall()[0][0] - second >= timedelta(hours=1)
        raise psycopg.Rollback


@pytest.mark.contract("C-22")
def test_a_clock_that_nobody_winds_costs_no_call_and_one_that_was_wound_can_be_set_right(
    db: psycopg.Connection[Any],
) -> None:
    def planned() -> str:
        rows = db.execute("explain (verbose) select penstock.now()").fetchall()
        return "".join(row[0] for row in rows)

    assert "statement_timestamp()" in planned()
    for undo in ("delete from penstock.clock", "truncate penstock.clock"):
        db.execute("insert into penstock.clock (shift) values ('1 hour')")
        assert "penstock.now()" in planned()
        db.execute("update penstock.clock set shift = '2 hours'")
        (ahead,) = db.execute("select penstock.now() - statement_timestamp() = interval '2 hours'").fetchall()[0]
        assert ahead
        db.execute(undo)
        assert "statement_timestamp()" in planned()


@pytest.mark.contract("C-22")
@pytest.mark.parametrize("role", roles.ROLES)
def test_no_role_but_the_owner_can_wind_the_clock(role: str, role_dsn: Callable[[str], str], dsn: str) -> None:
    statements = (
        "insert into penstock.clock (shift) values ('1 hour')",
        "update penstock.clock set shift = '1 hour'",
        "delete from penstock.clock",
        "truncate penstock.clock",
    )
    with psycopg.connect(role_dsn(role), autocommit=True) as connection:
        for statement in statements:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)
        assert connection.execute("select penstock.now() is not null").fetchall() == [(True,)]
    with psycopg.connect(dsn) as owner:
        owner.execute(statements[0])
        owner.rollback()


WORKER_AN_HOUR_OFF = """
import asyncio, datetime, sys, time

real_time, real_datetime = time.time, datetime.datetime
shift = float(sys.argv[2])
time.time = lambda: real_time() + shift

class Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return real_datetime.now(tz) + datetime.timedelta(seconds=shift)

datetime.datetime = Shifted

from penstock import Penstock
from penstock.testing import InlineWorker

app = Penstock(sys.argv[1])

@app.job("note", lease=datetime.timedelta(minutes=5))
async def note() -> None: ...

async def main() -> None:
    worker = InlineWorker(sys.argv[1], list(app.types), app.settings, name="off", insecure=True)
    await worker.open()
    print(await worker.work())
    await worker.close()

asyncio.run(main())
"""


@pytest.mark.contract("C-22")
@pytest.mark.parametrize("shift", [3600, -3600])
async def test_a_worker_whose_clock_is_an_hour_off_claims_nothing_early_and_reaps_nothing_alive(
    shift: int, dsn: str
) -> None:
    app = Penstock(dsn)

    @app.job("note", lease=timedelta(minutes=5))
    async def note() -> None: ...

    async with Harness(app) as h:
        due = await h.enqueue("note")
        later = await h.enqueue("note", delay=timedelta(minutes=30))
        held = await h.enqueue("note")
        await h.app.pool.execute(
            "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'alive', "
            "claimed_at = penstock.now(), lease_expires_at = penstock.now() + interval '5 minutes' where job_id = $1",
            held,
        )
        command = [sys.executable, "-c", WORKER_AN_HOUR_OFF, dsn, str(shift)]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=False, env={**os.environ, "TZ": "UTC"}
        )
        assert done.stdout.strip() == "1", done.stderr
        assert await h.status(due) == "completed"
        assert await h.status(later) == "queued"
        assert await h.status(held) == "processing"
        row = await h.job(due)
        assert abs(row["finished_at"] - datetime.now(UTC)) < timedelta(minutes=5), "stamped by the database's clock"


@pytest.mark.contract("C-22", "C-31")
async def test_a_database_clock_that_jumps_costs_a_lease_and_never_the_fence(dsn: str) -> None:
    app = Penstock(dsn)
    runs: list[str] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.job("slow", lease=timedelta(minutes=5), attempts=5)
    async def slow() -> None:
        runs.append("run")
        if len(runs) == 1:
            begun.set()
            await go_on.wait()

    async with Harness(app) as h:
        job_id = await h.enqueue("slow")
        first = await h.worker("first")
        running = asyncio.create_task(first.work())
        await begun.wait()
        await h.pass_time(hours=1)
        assert await h.drain("second") == 1
        by_second = await h.job(job_id)
        go_on.set()
        await running
        assert await h.job(job_id) == by_second, "the first claim lost its fence and wrote nothing"
        await h.pass_time(hours=-3)
        assert await h.drain("second") == 0
        assert await h.status(job_id) == "completed"
