"""`penstock types`: policies, pauses, limits and breakers."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.store.roles import OPERATOR
from tests.support.desk import Desk
from tests.support.desks import Command
from tests.support.processes import SAMPLE, run_penstock


@pytest.fixture(autouse=True)
def _types(desk: Desk) -> None:
    desk.sync_types()


def noop(penstock: Command) -> dict[str, Any]:
    found = {row["job_type"]: row for row in json.loads(penstock("types", "list", "--json").stdout)}
    answer: dict[str, Any] = found["noop"]
    return answer


def test_sync_writes_the_policies_of_an_application(desk: Desk) -> None:
    done = run_penstock(["types", "sync", SAMPLE], desk.worker_dsn)
    assert done.returncode == 0, done.stderr
    assert "flaky" in done.stdout
    assert desk.row("select max_attempts from penstock.types where job_type = 'flaky'")["max_attempts"] == 2


@pytest.mark.contract("C-71")
def test_what_a_sync_would_loosen_waits_for_an_operators_login(
    desk: Desk, penstock: Command, role_dsn: Callable[[str], str]
) -> None:
    assert run_penstock(["types", "sync", SAMPLE], desk.worker_dsn).returncode == 0
    assert penstock("types", "limits", "flaky", "--running", "1").exit_code == 0
    desk.owner.execute(  # as the deploy before had it
        'update penstock.types set audited = true, policy = policy || \'{"attempts": 9, "audit": "full"}\' '
        "where job_type = 'flaky'"
    )
    stored = (
        "select audited, max_running, policy -> 'attempts' as attempts from penstock.types where job_type = 'flaky'"
    )

    held = run_penstock(["types", "sync", SAMPLE], desk.worker_dsn)
    assert held.returncode == 0, held.stderr
    assert "flaky: audit, limits wait for a sync by a login of penstock_operator" in held.stderr
    assert desk.row(stored) == {"audited": True, "max_running": 1, "attempts": 2}

    done = run_penstock(["types", "sync", SAMPLE], role_dsn(OPERATOR))
    assert done.returncode == 0, done.stderr
    assert "flaky" not in done.stderr
    assert desk.row(stored) == {"audited": False, "max_running": None, "attempts": 2}


def test_a_paused_type_says_who_paused_it_and_why(desk: Desk, penstock: Command) -> None:
    assert penstock("types", "pause", "noop", "--reason", "provider down", "--who", "ann").exit_code == 0
    found = noop(penstock)
    assert (found["state"], found["paused_by"], found["pause_reason"]) == ("paused", "ann", "provider down")
    assert "paused" in penstock("types", "list").stdout
    assert penstock("types", "resume", "noop").exit_code == 0
    assert noop(penstock)["state"] == "running"


def test_limits_are_changed_one_by_one_and_lifted_together(penstock: Command) -> None:
    assert penstock("types", "limits", "noop", "--running", "3").exit_code == 0
    assert penstock("types", "limits", "noop", "--rate", "600/h", "--key-rate", "5/30s").exit_code == 0
    shown = json.loads(penstock("types", "limits", "noop", "--json").stdout)
    assert shown == {"running": 3, "rate": "600/3600s", "key_running": None, "key_rate": "5/30s"}
    assert penstock("types", "limits", "noop", "--clear", "--key-running", "2").exit_code == 0
    shown = json.loads(penstock("types", "limits", "noop", "--json").stdout)
    assert shown == {"running": None, "rate": None, "key_running": 2, "key_rate": None}


@pytest.mark.parametrize("rate", ["10", "/s", "0/s", "-1/s", "10/0s", "10/x", "ten/s", "10/.", "10/"])
def test_a_rate_that_is_none_is_wrong_usage(penstock: Command, rate: str) -> None:
    refused = penstock("types", "limits", "noop", "--rate", rate)
    assert refused.exit_code == 2
    assert noop(penstock)["rate"] is None


def test_an_open_breaker_is_seen_and_closed(desk: Desk, penstock: Command) -> None:
    for _ in range(3):
        desk.owner.execute("select penstock.trip_breaker('noop', 'AUTH_DENIED')")
    assert noop(penstock)["state"] == "breaker open"
    shown = json.loads(penstock("types", "breaker", "noop", "--json").stdout)
    assert (shown["breaker"], shown["breaker_code"]) == ("open", "AUTH_DENIED")
    assert json.loads(penstock("types", "breaker", "noop", "--close", "--json").stdout)["breaker"] == "closed"


@pytest.mark.parametrize("command", [("pause",), ("resume",), ("limits",), ("limits", "--running", "1"), ("breaker",)])
def test_an_unknown_type_is_told_with_3(penstock: Command, command: tuple[str, ...]) -> None:
    done = penstock("types", command[0], "nope", *command[1:])
    assert done.exit_code == 3, done.output
    assert "penstock types list" in done.stderr


@pytest.mark.parametrize("role", ["penstock_frontend", "penstock_orchestrator"])
def test_only_operators_and_workers_move_gates(desk: Desk, penstock: Command, role: str) -> None:
    refused = penstock("types", "pause", "noop", role=role)
    assert refused.exit_code == 6, refused.output
    assert desk.row("select paused_at from penstock.types where job_type = 'noop'")["paused_at"] is None
