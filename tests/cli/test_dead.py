"""`penstock dead`: the five steps by id and in bulk, in the words of the command line."""

import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.desk import Desk
from tests.support.desks import Command


@pytest.fixture(autouse=True)
def _types(desk: Desk) -> None:
    desk.sync_types()


@pytest.fixture
def letters(desk: Desk) -> list[str]:
    """Three dead letters: two of one class, one of another."""
    return [str(desk.fail("refused", name)[1]) for name in ("SCHEMA_INVALID", "SCHEMA_INVALID", "AUTH_DENIED")]


def done(penstock: Command, *arguments: str) -> dict[str, Any]:
    answer = penstock("dead", *arguments, "--json")
    assert answer.exit_code == 0, answer.output
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def state(desk: Desk, letter: str) -> str:
    return str(desk.row("select state from penstock.dead_letters where dead_letter_id = %s", letter)["state"])


def test_letters_are_listed_counted_and_shown(penstock: Command, letters: list[str]) -> None:
    every = json.loads(penstock("dead", "list", "--json").stdout)
    assert [row["dead_letter_id"] for row in every] == letters
    one = json.loads(penstock("dead", "list", "--class", "AUTH_DENIED", "--json").stdout)
    assert [row["dead_letter_id"] for row in one] == letters[2:]
    assert "SCHEMA_INVALID" in penstock("dead", "summary").stdout
    shown = penstock("dead", "show", letters[0])
    assert "the stack" in shown.stdout
    assert "private" not in shown.stdout
    assert json.loads(penstock("dead", "show", letters[0], "--json").stdout)["events"] == []


@pytest.mark.contract("R-18")
def test_the_steps_lead_from_open_to_replaying(desk: Desk, penstock: Command, letters: list[str]) -> None:
    letter = letters[0]
    for step in (
        ("triage", letter, "--as", "data", "--who", "ann"),
        ("remediate", letter, "--action", "the mapping was corrected", "--who", "ann"),
        ("validate", letter, "--ticket", "OPS-7", "--replay-safe", "--who", "ann"),
        ("replay", letter, "--who", "ann"),
    ):
        assert done(penstock, *step) == {"done": [letter], "refused": []}
    assert state(desk, letter) == "replaying"
    steps = [event["step"] for event in json.loads(penstock("dead", "show", letter, "--json").stdout)["events"]]
    assert steps[:3] == ["triaged", "remediated", "validated"]


def test_a_step_out_of_order_is_refused_with_6_and_the_next_step(
    desk: Desk, penstock: Command, letters: list[str]
) -> None:
    refused = penstock("dead", "validate", letters[0], "--ticket", "OPS-7", "--replay-safe")
    assert refused.exit_code == 6
    assert "triage" in refused.stderr
    assert state(desk, letters[0]) == "open"


def test_one_refusal_does_not_stop_the_others(desk: Desk, penstock: Command, letters: list[str]) -> None:
    missing = str(uuid4())
    answer = penstock("dead", "triage", missing, letters[0], "--as", "data", "--json")
    assert answer.exit_code == 3
    assert json.loads(answer.stdout)["done"] == [letters[0]]
    assert state(desk, letters[0]) == "triaged"


def test_a_filter_takes_a_step_on_all_that_match(desk: Desk, penstock: Command, letters: list[str]) -> None:
    report = done(penstock, "triage", "--class", "SCHEMA_INVALID", "--as", "data")
    assert sorted(report["done"]) == sorted(letters[:2])
    assert [state(desk, letter) for letter in letters] == ["triaged", "triaged", "open"]

    assert len(done(penstock, "replay", "--all")["done"]) == 3
    replays = desk.owner.execute("select replay_job_id from penstock.dead_letters").fetchall()
    assert all(isinstance(row["replay_job_id"], UUID) for row in replays)


def test_work_may_be_given_up_in_bulk(desk: Desk, penstock: Command, letters: list[str]) -> None:
    report = done(penstock, "close", "--type", "refused", "--without-replay", "--notes", "the data is gone")
    assert sorted(report["done"]) == sorted(letters)
    assert {state(desk, letter) for letter in letters} == {"resolved"}
    assert json.loads(penstock("dead", "list", "--json").stdout) == []
    assert len(json.loads(penstock("dead", "list", "--state", "resolved", "--json").stdout)) == 3


@pytest.mark.parametrize("extra", [(), ("--limit", "5")])
def test_nothing_is_touched_without_a_choice(
    desk: Desk, penstock: Command, letters: list[str], extra: tuple[str, ...]
) -> None:
    refused = penstock("dead", "replay", *extra)
    assert refused.exit_code == 2
    assert "--all" in refused.stderr
    assert {state(desk, letter) for letter in letters} == {"open"}


def test_ids_and_filters_together_are_wrong_usage(penstock: Command, letters: list[str]) -> None:
    assert penstock("dead", "replay", letters[0], "--all").exit_code == 2


@pytest.mark.parametrize("role", ["penstock_frontend", "penstock_orchestrator"])
def test_only_operators_replay(desk: Desk, penstock: Command, letters: list[str], role: str) -> None:
    refused = penstock("dead", "replay", letters[0], role=role)
    assert refused.exit_code == 6, refused.output
    assert "penstock_operator" in refused.stderr
    assert state(desk, letters[0]) == "open"
