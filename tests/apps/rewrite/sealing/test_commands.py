"""`penstock rewrite`: what an operator types, and what it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from penstock.apps.rewrite.keyring import Keyring, new_key
from penstock.contract.text_keys import parse_text_keys
from tests.apps.rewrite.estate import Estate, Home, Unit, open_estate
from tests.support.desks import Command, penstock

__all__ = ["penstock"]
MESSAGE, OUTPUT = "canary-message-61", "canary-output-62"
KEYS = new_key("k1")
Act = Callable[[Callable[[Estate], Awaitable[Any]]], Any]


@pytest.fixture
def act(dsn: str, role_dsn: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> Act:
    """Do something on the estate before or after a command, which has an event loop of its own."""
    monkeypatch.setenv("PENSTOCK_TEXT_KEYS", KEYS)

    def do(work: Callable[[Estate], Awaitable[Any]]) -> Any:
        async def once() -> Any:
            async with open_estate(dsn, role_dsn) as estate:
                estate.keyring = Keyring.of(KEYS)
                return await work(estate)

        return asyncio.run(once())

    return do


async def lived_in(estate: Estate) -> tuple[Home, Unit, Unit]:
    home = await estate.home()
    done = await estate.completed(home, OUTPUT, text=MESSAGE)
    failed, _ = await estate.claimed(home, text=MESSAGE)
    await estate.fail(failed, "AUTH_DENIED")
    return home, done, failed


def test_a_new_key_can_be_put_into_the_settings_as_it_is_printed(penstock: Command) -> None:
    made = [penstock("rewrite", "keys", "new") for _ in range(2)]
    for done in made:
        assert done.exit_code == 0
        assert len(parse_text_keys(done.stdout.strip())) == 1
        assert "keys rotate" in done.stderr
    assert made[0].stdout != made[1].stdout
    named = penstock("rewrite", "keys", "new", "--id", "2027a")
    assert named.stdout.startswith("2027a:")
    refused = penstock("rewrite", "keys", "new", "--id", "no good")
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_without_a_key_the_commands_say_how_to_make_one(penstock: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_TEXT_KEYS", raising=False)
    for words in (("keys", "rotate"), ("keys", "status")):
        refused = penstock("rewrite", *words)
        assert refused.exit_code == 2
        assert "penstock rewrite keys new" in refused.stderr


def test_keys_are_renewed_and_the_old_one_is_shown_as_unused(
    act: Act, penstock: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    act(lived_in)
    secret = KEYS.partition(":")[2]
    monkeypatch.setenv("PENSTOCK_TEXT_KEYS", f"{new_key('k2')},{KEYS}")
    before = json.loads(penstock("rewrite", "keys", "status", "--json").stdout)
    assert [(use["key_id"], use["homes"]) for use in before] == [("k2", 0), ("k1", 1)]
    done = penstock("rewrite", "keys", "rotate")
    assert (done.exit_code, done.stdout) == (0, "Wrapped the data keys of 1 homes by k2.\n")
    after = penstock("rewrite", "keys", "status", "--json")
    assert [(use["key_id"], use["homes"], use["in_use"]) for use in json.loads(after.stdout)] == [
        ("k2", 1, True),
        ("k1", 0, False),
    ]
    assert secret not in done.output + after.output


def test_a_key_taken_out_too_early_is_named(act: Act, penstock: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    act(lived_in)
    monkeypatch.setenv("PENSTOCK_TEXT_KEYS", new_key("k2"))
    for words in ("status", "rotate"):
        refused = penstock("rewrite", "keys", words)
        assert refused.exit_code == 1
        assert "k1" in refused.stderr


def test_erasing_asks_first_and_says_what_it_did_and_what_backups_hold(act: Act, penstock: Command) -> None:
    home, *_ = act(lived_in)
    act(lambda estate: estate.queued(home))
    refused = penstock("rewrite", "erase-home", str(home.home_id))
    assert (refused.exit_code, "--yes" in refused.stderr) == (6, True)
    done = penstock("rewrite", "erase-home", str(home.home_id), "--yes", "--who", "ann")
    assert done.exit_code == 0, done.output
    assert f"Erased home {home.home_id}" in done.stdout
    assert "jobs canceled     1" in done.stdout
    assert "Backups" in done.stdout
    again = json.loads(penstock("rewrite", "erase-home", str(home.home_id), "--yes", "--json").stdout)
    assert (again["erased_before"], again["jobs_canceled"]) == (True, 0)
    absent = penstock("rewrite", "erase-home", str(uuid4()), "--yes")
    assert (absent.exit_code, "nothing was changed" in absent.stderr) == (3, True)


@pytest.mark.parametrize("role", ["penstock_worker", "penstock_orchestrator", "penstock_frontend"])
def test_no_other_role_erases(act: Act, penstock: Command, role: str) -> None:
    home, *_ = act(lived_in)
    assert penstock("rewrite", "erase-home", str(home.home_id), "--yes", role=role).exit_code == 6


@pytest.mark.contract("A-81")
def test_reports_are_printed_and_name_nobody(act: Act, penstock: Command) -> None:
    home, done, failed = act(lived_in)
    act(lambda estate: estate.owner.execute(
        "select penstock.add_spend('complaint_rewrite', 'openai', 'm', 'en', 'es', 'batch', 9, 9, 1500000, null)"
    ))  # fmt: skip
    shown = {name: penstock("rewrite", "report", name) for name in ("cost", "failures", "regressions", "incidents")}
    assert all(result.exit_code == 0 for result in shown.values()), shown
    assert "1.5000" in shown["cost"].stdout
    assert "50.0%" in shown["failures"].stdout
    assert "e1" in shown["regressions"].stdout
    assert "AUTH_DENIED" in shown["incidents"].stdout
    everything = "".join(result.output for result in shown.values())
    for identity in (home.home_id, home.sender, home.recipient, done.request_id, failed.job):
        assert str(identity) not in everything
    rows = json.loads(penstock("rewrite", "report", "failures", "--json").stdout)
    assert (rows[0]["failure_rate"], rows[0]["failed"]) == (0.5, 1)
    nothing = penstock(
        "rewrite", "report", "incidents", "--code", "NONE", "--since", "2020-01-01", "--until", "2020-01-02"
    )
    assert nothing.stdout == "Nothing to report.\n"


@pytest.mark.contract("Q-80", "A-80")
def test_the_trail_of_a_request_is_shown_to_its_home_alone_and_without_text(act: Act, penstock: Command) -> None:
    home, done, _ = act(lived_in)
    where = (str(done.request_id), "--home", str(home.home_id))
    record, audit = penstock("rewrite", "record", *where), penstock("rewrite", "audit", *where)
    assert (record.exit_code, audit.exit_code) == (0, 0), record.output + audit.output
    assert "language pair" in record.stdout
    assert audit.stdout.count("completed") == 1
    rows = json.loads(penstock("rewrite", "audit", *where, "--json").stdout)
    assert [row["status"] for row in rows] == ["queued", "processing", "completed"]
    assert json.loads(penstock("rewrite", "record", *where, "--json").stdout)["task"] == "complaint_rewrite"
    for canary in (MESSAGE, OUTPUT):
        assert canary not in record.output + audit.output + json.dumps(rows)
    elsewhere = (str(done.request_id), "--home", str(UUID(int=1)))
    for word in ("record", "audit"):
        assert penstock("rewrite", word, *elsewhere).exit_code == 3
