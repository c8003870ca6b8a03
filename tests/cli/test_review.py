"""`penstock review`: asking, looking, and the exit codes of what cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.support.desks import Command
from tests.web.conftest import REVIEW_ROW, SOURCES

TO = ("--to", "smtp:dev@example.org")


@pytest.fixture(autouse=True)
def served(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that a worker has made known, and a source."""
    monkeypatch.setenv("PENSTOCK_REVIEW_SOURCES", SOURCES)
    with psycopg.connect(dsn) as owner:
        owner.execute(REVIEW_ROW)


def review(penstock: Command, *arguments: str, code: int = 0) -> Any:
    """Run a command of the group as the orchestrator; JSON where that was asked for."""
    done = penstock("review", *arguments, role="penstock_orchestrator")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout) if "--json" in arguments and code == 0 else done


def answered(dsn: str, review_id: str) -> None:
    """Pretend that the critic has found one thing."""
    found = [{"file": "till.py", "line": 2, "severity": "major", "message": "Divides by zero.", "suggestion": None}]
    with psycopg.connect(dsn) as owner:
        owner.execute(
            "insert into review.artifacts (review_id, revision, facts, diff, part_tokens, parts) "
            "values (%s, '4f1c2aa', '{}', 'x', 500, 1)", [review_id],
        )  # fmt: skip
        owner.execute(
            "insert into review.parts (review_id, part, findings) values (%s, 1, %s)", [review_id, json.dumps(found)]
        )


@pytest.mark.contract("N-01", "N-34")
def test_a_review_is_asked_for_looked_at_and_listed(penstock: Command, dsn: str) -> None:
    made = review(penstock, "create", "shop:main", "--key", "k1", *TO, "--optional", "smtp:ops@example.org",
                  "--label", "v1", "--json")  # fmt: skip
    assert (made["created"], made["status"]) == (True, "in_progress")
    again = review(penstock, "create", "shop:main", "--key", "k1", *TO, "--json")
    assert (again["created"], again["review_id"]) == (False, made["review_id"])

    shown = review(penstock, "show", made["review_id"], "--json")
    assert [(one["address"], one["required"]) for one in shown["deliveries"]] == [
        ("dev@example.org", True), ("ops@example.org", False),
    ]  # fmt: skip
    assert (shown["changelist_id"], shown["label"], shown["findings"]) == ("shop:main", "v1", None)
    assert "pending" in review(penstock, "show", made["review_id"]).stdout
    (listed,) = review(penstock, "list", "--json")
    assert listed["review_id"] == made["review_id"]
    assert review(penstock, "list", "--changelist", "shop:other", "--json") == []
    assert made["review_id"] in review(penstock, "list").stdout

    unfinished = review(penstock, "findings", made["review_id"], code=1)
    assert "no findings yet" in unfinished.stderr
    answered(dsn, made["review_id"])
    (finding,) = review(penstock, "findings", made["review_id"], "--json")
    assert (finding["file"], finding["line"], finding["severity"]) == ("till.py", 2, "major")
    assert "Divides by zero." in review(penstock, "findings", made["review_id"]).stdout


def test_the_id_is_all_that_is_printed_and_a_second_time_is_told(penstock: Command) -> None:
    first = review(penstock, "create", "shop:main", "--key", "k1", *TO)
    second = review(penstock, "create", "shop:main", "--key", "k2", *TO)
    assert first.stdout == second.stdout
    assert (first.stderr, "It was there: version 1, in_progress." in second.stderr) == ("", True)


@pytest.mark.contract("C-47")
def test_what_cannot_be_is_refused_with_its_code(penstock: Command) -> None:
    review(penstock, "create", "shop:main", "--key", "k1", "--version", "3", *TO)
    lower = review(penstock, "create", "shop:main", "--key", "k2", "--version", "2", "--rerun", *TO, code=1)
    assert "above 3" in lower.stderr
    nowhere = review(penstock, "create", "elsewhere:main", "--key", "k3", *TO, code=1)
    assert "shop" in nowhere.stderr
    nobody = review(penstock, "create", "shop:b", "--key", "k4", code=1)
    assert "recipients" in nobody.stderr
    private = review(penstock, "create", "shop:b", "--key", "k5", "--to", "webhook:https://10.0.0.1/x", code=1)
    assert "10.0.0.1" not in private.stderr
    assert "CHANNEL:ADDRESS" in review(penstock, "create", "shop:b", "--key", "k6", "--to", "dev", code=2).stderr
    review(penstock, "create", "shop:b", *TO, code=2)
    review(penstock, "create", "shop:b", "--key", "k7", "--version", "0", *TO, code=2)
    for command in ("show", "findings"):
        missing = review(penstock, command, str(uuid4()), code=3)
        assert "penstock review list" in missing.stderr


def test_without_sources_it_says_what_to_set(penstock: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_REVIEW_SOURCES")
    told = review(penstock, "create", "shop:b", "--key", "k1", *TO, code=1).stderr
    assert "PENSTOCK_REVIEW_SOURCES" in told


def test_sources_that_do_not_hold_together_are_told_by_their_setting(
    penstock: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_REVIEW_SOURCES", '{"shop": {"kind": "cvs"}}')
    assert "shop" in review(penstock, "create", "shop:b", "--key", "k1", *TO, code=2).stderr
    monkeypatch.setenv("PENSTOCK_REVIEW_SOURCES", str(tmp_path / "none.json"))
    review(penstock, "create", "shop:b", "--key", "k1", *TO, code=2)


def test_a_frontend_may_not_look(penstock: Command) -> None:
    done = penstock("review", "list", role="penstock_frontend")
    assert done.exit_code in (1, 6), done.output
