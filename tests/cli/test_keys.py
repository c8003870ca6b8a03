"""`penstock keys`: made and shown once, listed without secrets, revoked."""

import hashlib
import json
from uuid import UUID

import pytest

from tests.support.desk import Desk
from tests.support.desks import Command

HOME, USER = str(UUID(int=0xA)), str(UUID(int=1))


def test_a_key_is_shown_once_and_kept_as_a_hash(desk: Desk, penstock: Command) -> None:
    done = penstock("keys", "create", "--scope", "orchestrator", "--name", "backend", "--who", "alex", "--json")
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)
    key_id, _, secret = made["key"].partition(".")
    assert (made["key_id"], made["scope"], made["expires_at"]) == (key_id, "orchestrator", None)
    row = desk.row("select secret_hash, name, created_by from penstock.api_keys where key_id = %s", key_id)
    assert row == {
        "secret_hash": hashlib.sha256(made["key"].encode()).digest(),
        "name": "backend",
        "created_by": "alex",
    }
    listed = penstock("keys", "list").output + penstock("keys", "list", "--json").output
    assert key_id in listed
    assert secret not in listed
    assert "hash" not in listed


def test_people_get_the_key_and_a_word_on_how_to_use_it(penstock: Command, desk: Desk) -> None:
    done = penstock("keys", "create", "--scope", "frontend", "--home", HOME, "--user", USER, "--days", "30")
    assert done.exit_code == 0, done.output
    token = next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("key "))
    assert len(token) == 56
    assert "this once" in done.stderr
    row = desk.row(
        "select home_id::text, user_id::text, extract(day from expires_at - created_at) as days from penstock.api_keys"
    )
    assert row == {"home_id": HOME, "user_id": USER, "days": 30}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--scope", "frontend"), "--home and --user"),
        (("--scope", "frontend", "--home", HOME), "--home and --user"),
        (("--scope", "orchestrator", "--user", USER), "leave --user out"),
        (("--scope", "operator", "--home", HOME), "leave --home out"),
        (("--scope", "worker"), "--scope"),
        ((), "--scope"),
        (("--scope", "frontend", "--home", "x", "--user", USER), "--home"),
        (("--scope", "operator", "--days", "0"), "--days"),
        (("--scope", "operator", "--name", "x" * 101), "printable"),
        (("--scope", "operator", "--name", "line\nbreak"), "printable"),
        (("--scope", "operator", "--who", ""), "printable"),
    ],
)
def test_a_key_that_makes_no_sense_is_wrong_usage(
    desk: Desk, penstock: Command, options: tuple[str, ...], words: str
) -> None:
    done = penstock("keys", "create", *options)
    assert done.exit_code == 2
    assert words in done.stderr
    assert desk.row("select count(*) from penstock.api_keys")["count"] == 0


def test_a_revoked_key_is_refused_and_keeps_who_did_it(desk: Desk, penstock: Command) -> None:
    made = json.loads(penstock("keys", "create", "--scope", "operator", "--json").stdout)
    for who in ("alex", "robin"):  # the second time it is so already
        done = penstock("keys", "revoke", made["key_id"], "--who", who)
        assert done.exit_code == 0, done.output
        assert f"{made['key_id']} is refused since" in done.stdout
    (row,) = json.loads(penstock("keys", "list", "--json").stdout)
    assert (row["state"], row["revoked_by"]) == ("revoked", "alex")
    digest = hashlib.sha256(made["key"].encode()).digest()
    assert desk.row("select scope from penstock.check_key(%s, %s)", made["key_id"], digest) == {"scope": None}


def test_a_key_that_is_not_there_is_told(penstock: Command) -> None:
    done = penstock("keys", "revoke", "nobody")
    assert done.exit_code == 3
    assert "penstock keys list" in done.stderr
    assert penstock("keys", "list").stdout.startswith("No keys")


@pytest.mark.parametrize("role", ["penstock_worker", "penstock_frontend", "penstock_orchestrator"])
def test_only_operators_make_see_and_revoke_keys(penstock: Command, role: str) -> None:
    for command in (("create", "--scope", "operator"), ("list",), ("revoke", "x")):
        done = penstock("keys", *command, role=role)
        assert done.exit_code == 6
        assert "penstock_operator" in done.stderr


def test_expired_keys_are_listed_as_such(desk: Desk, penstock: Command) -> None:
    penstock("keys", "create", "--scope", "operator", "--days", "1")
    (row,) = json.loads(penstock("keys", "list", "--json").stdout)
    assert row["state"] == "valid"
    desk.pass_time(days=2)
    (row,) = json.loads(penstock("keys", "list", "--json").stdout)
    assert row["state"] == "expired"
