"""`penstock schedules` and `penstock scheduler`."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from penstock import Penstock
from penstock.engine.scheduler import sync
from tests.support.desk import Desk
from tests.support.desks import Command
from tests.support.processes import Process, environment, run_penstock, start_penstock

APP = "tests.support.scheduled_app:app"


@pytest.fixture
def declared(desk: Desk) -> Desk:
    """A database with some schedules."""
    app = Penstock(desk.worker_dsn)
    app.function("rewrite_worker", every=timedelta(hours=1))(lambda: None)
    app.schedule("daily-report", "report", {"kind": "daily"}, cron="30 3 * * *", timezone="Europe/Berlin")

    async def write() -> None:
        async with app:
            await sync(app.pool, app.functions)

    asyncio.run(write())
    return desk


@pytest.fixture
def scheduler(desk: Desk) -> Iterator[Process]:
    """`penstock scheduler` as a process."""
    command = ["scheduler", APP, "--log-format", "json"]
    with start_penstock(command, environment(desk.worker_dsn), stderr=subprocess.PIPE) as process:
        yield process
        if process.poll() is None:
            process.kill()


def schedule(desk: Desk, name: str) -> dict[str, Any]:
    return desk.row("select * from penstock.schedules where schedule = %s", name)


@pytest.mark.contract("Q-44")
def test_the_list_shows_what_runs_when(declared: Desk, penstock: Command) -> None:
    listed = penstock("schedules", "list")
    as_json = json.loads(penstock("schedules", "list", "--json").stdout)

    assert listed.exit_code == 0
    assert "run rewrite_worker" in listed.stdout
    assert "30 3 * * * (Europe/Berlin)" in listed.stdout
    rows = {row["schedule"]: row for row in as_json}
    assert (rows["rewrite_worker"]["every"], rows["rewrite_worker"]["state"]) == (3600.0, "waiting")
    assert rows["daily-report"]["what"] == "enqueue report"
    assert schedule(declared, "daily-report")["payload"] == {"kind": "daily"}, "stored, and in no listing"
    assert "payload" not in rows["daily-report"]
    assert '"kind"' not in json.dumps(as_json)
    assert declared.row("select count(*) as n from penstock.schedules")["n"] == 4


def test_a_schedule_is_switched_off_and_on_and_the_pause_is_not_made_up_for(declared: Desk, penstock: Command) -> None:
    assert penstock("schedules", "disable", "rewrite_worker").exit_code == 0
    assert not schedule(declared, "rewrite_worker")["enabled"]
    before = schedule(declared, "rewrite_worker")["next_due_at"]
    declared.pass_time(hours=5)

    done = penstock("schedules", "enable", "rewrite_worker")

    assert (done.exit_code, done.stdout) == (0, "rewrite_worker runs again.\n")
    row = schedule(declared, "rewrite_worker")
    assert row["enabled"]
    assert (row["next_due_at"] - before).total_seconds() == 5 * 3600


@pytest.mark.parametrize("command", ["enable", "disable", "run"])
def test_an_unknown_schedule_ends_with_3(declared: Desk, penstock: Command, command: str) -> None:
    done = penstock("schedules", command, "nope")

    assert done.exit_code == 3
    assert "No schedule nope" in done.stderr
    assert declared.dsn


@pytest.mark.contract("Q-47", "Q-48")
@pytest.mark.parametrize("role", ["penstock_frontend", "penstock_orchestrator", "penstock_worker"])
def test_only_operators_ask_for_a_run(declared: Desk, penstock: Command, role: str) -> None:
    done = penstock("schedules", "run", "rewrite_worker", role=role)

    assert done.exit_code == 6
    assert schedule(declared, "rewrite_worker")["requested_at"] is None


@pytest.mark.contract("Q-47", "C-57")
def test_the_scheduler_runs_what_is_due_and_what_is_asked_for_until_it_is_told_to_stop(
    desk: Desk, penstock: Command, scheduler: Process
) -> None:
    desk.until(lambda: desk.row("select count(*) as n from penstock.runs where function = 'pulse'")["n"])
    asked = penstock("schedules", "run", "daily-report", "--who", "alice")
    desk.until(lambda: desk.row("select count(*) as n from penstock.jobs where job_type = 'report'")["n"])

    scheduler.send_signal(signal.SIGTERM)
    assert scheduler.wait(30) == 0

    assert asked.exit_code == 0
    events = [json.loads(line)["event"] for line in scheduler.stderr or ()]
    assert events[-1] == "scheduler_stopped"
    assert "scheduler_stopping" in events
    assert desk.row("select count(*) as n from penstock.runs where finished_at is null")["n"] == 0


def test_the_schedules_of_an_application_are_written_by_name(desk: Desk) -> None:
    done = run_penstock(["schedules", "sync", APP], desk.worker_dsn)

    assert (done.returncode, done.stdout) == (0, "5 schedules written.\n"), done.stderr
    assert schedule(desk, "pulse")["source"] == "app"


def test_a_scheduler_without_an_application_says_which_one_it_needs(desk: Desk) -> None:
    done = run_penstock(["scheduler"], desk.worker_dsn)

    assert done.returncode == 2
    assert "Which application?" in done.stderr


def test_a_worker_can_be_a_scheduler_too(desk: Desk) -> None:
    worker = desk.worker("--scheduler", app=APP).ready()
    desk.until(lambda: desk.row("select count(*) as n from penstock.runs where function = 'pulse'")["n"])

    assert worker.stop() == 0
    assert [event["event"] for event in worker.events if event["event"].endswith("_stopped")] == [
        "worker_stopped",
        "scheduler_stopped",
    ]
