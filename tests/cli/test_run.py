"""`penstock run`: one call is one bounded run, for those who may."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.contract_types import complaint_rewrite
from penstock.contract.crash import CrashPoint
from penstock.contract.profiles import BASE
from tests.support import clusters
from tests.support.desk import Desk
from tests.support.processes import environment, run_penstock, start_penstock

APP = "tests.support.scheduled_app:app"


@pytest.fixture
def template() -> str:
    """The engine alone: made-up jobs run here under the name of an application's type."""
    return clusters.BARE_TEMPLATE


@pytest.fixture
def rewriting(desk: Desk) -> Desk:
    """A database that knows the scheduled type."""
    policy = complaint_rewrite(BASE)
    desk.owner.execute(
        "insert into penstock.types (job_type, policy, stages, max_attempts, dispatch) "
        "values ('complaint_rewrite', %s, '{rewrite}', 2, 'scheduled')",
        (json.dumps(policy.to_json()),),
    )
    return desk


def runs(desk: Desk) -> list[dict[str, Any]]:
    return desk.owner.execute("select * from penstock.runs order by started_at").fetchall()


@pytest.mark.contract("C-57", "Q-08", "Q-47")
def test_each_call_is_one_run_and_an_admin_is_shown_as_such(rewriting: Desk) -> None:
    for _ in range(30):
        rewriting.put("complaint_rewrite")

    by_timer = run_penstock(["run", "rewrite_worker", "--app", APP, "--json"], rewriting.worker_dsn, cold=True)
    by_hand = run_penstock(["run", "rewrite_worker", "--app", APP, "--admin", "--insecure"], rewriting.dsn)

    assert (by_timer.returncode, by_hand.returncode) == (0, 0), by_timer.stderr + by_hand.stderr
    told = json.loads(by_timer.stdout)
    assert (told["skipped"], told["run"]["claimed_count"], told["run"]["left_waiting_count"]) == (False, 25, 5)
    assert "claimed count        5" in by_hand.stdout
    assert [(r["trigger"], r["claimed_count"]) for r in runs(rewriting)] == [("schedule", 25), ("admin", 5)]


@pytest.mark.contract("Q-82", "Q-50")
def test_nothing_to_do_is_said_in_plain_words_and_is_no_error(rewriting: Desk) -> None:
    done = run_penstock(["run", "rewrite_worker", "--app", APP], rewriting.worker_dsn)

    assert (done.returncode, done.stdout) == (0, "rewrite_worker skipped: no pending items\n")
    (line,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert (line["level"], line["event"]) == ("info", "rewrite_worker skipped: no pending items")
    assert runs(rewriting) == []


@pytest.mark.contract("Q-47", "Q-48")
@pytest.mark.parametrize(
    ("role", "options", "told"),
    [
        ("penstock_frontend", ["--admin"], "may not start a run"),
        ("penstock_operator", ["--admin"], "`penstock schedules run`"),
        ("penstock_worker", ["--admin"], "no member of penstock_operator"),
    ],
)
def test_who_may_not_start_a_run_is_told_why(
    rewriting: Desk, role_dsn: Callable[[str], str], role: str, options: list[str], told: str
) -> None:
    rewriting.put("complaint_rewrite")

    done = run_penstock(["run", "rewrite_worker", "--app", APP, *options], role_dsn(role))

    assert done.returncode == 6, done.stderr
    assert told in done.stderr
    assert runs(rewriting) == []


def test_an_unknown_function_is_not_found_and_the_known_ones_are_named(desk: Desk) -> None:
    done = run_penstock(["run", "nope", "--app", APP], desk.worker_dsn)

    assert done.returncode == 3
    assert "no function 'nope'; this application has broken, pulse, reaper, retention, rewrite_worker" in done.stderr


def test_a_function_that_fails_ends_with_1_and_without_its_text(desk: Desk) -> None:
    done = run_penstock(["run", "broken", "--app", APP], desk.worker_dsn)

    assert done.returncode == 1
    assert "broken failed: RUNTIME_BUG" in done.stderr
    assert "nobody may see" not in done.stdout + done.stderr


def test_the_functions_of_the_house_need_no_application(desk: Desk) -> None:
    done = run_penstock(["run", "reaper"], desk.worker_dsn)

    assert (done.returncode, done.stdout) == (0, "reaper skipped: no pending items\n")


def test_a_signal_finishes_what_runs_and_gives_the_rest_back(rewriting: Desk, tmp_path: Path) -> None:
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    jobs = [rewriting.put("complaint_rewrite", {"until": str(gate), "begun": str(begun)}) for _ in range(3)]
    command = ["run", "rewrite_worker", "--app", APP, "--concurrency", "1"]
    with start_penstock(command, environment(rewriting.worker_dsn), stderr=subprocess.PIPE) as process:
        rewriting.until(begun.exists)
        process.send_signal(signal.SIGTERM)
        gate.touch()
        assert process.wait(30) == 0

    assert rewriting.status(jobs[0]) == "completed"
    (run,) = runs(rewriting)
    assert (run["succeeded_count"], run["finished_at"] is not None) == (1, True)
    assert {rewriting.status(job) for job in jobs[1:]} == {"queued"}


def test_a_run_killed_in_the_middle_keeps_its_record_and_its_jobs_come_back(rewriting: Desk) -> None:
    job = rewriting.put("complaint_rewrite")
    killed = run_penstock(
        ["run", "rewrite_worker", "--app", APP], rewriting.worker_dsn, env={"PENSTOCK_CRASH_AT": CrashPoint.MID_HANDLER}
    )
    assert killed.returncode == -signal.SIGKILL
    (run,) = runs(rewriting)
    assert run["finished_at"] is None

    rewriting.pass_time(seconds=601)
    assert run_penstock(["run", "rewrite_worker", "--app", APP], rewriting.worker_dsn).returncode == 0
    row = rewriting.job(job)
    assert (row["status"], row["attempt_count"]) == ("completed", 1)
    assert os.environ.get("PENSTOCK_CRASH_AT") is None
