"""The phases of rolling out NOTIFY: two settings by one number, and what a command tells of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import Result

from penstock.apps.vault import phases
from penstock.contract.errors import SettingsInvalid
from penstock.settings import PREFIX, Settings, load_settings
from penstock.store.workers import ALIVE
from tests.apps.vault.conftest import World
from tests.apps.vault.ops.conftest import working
from tests.support.desks import penstock

__all__ = ["penstock"]

Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have settings of their own."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"{PREFIX}{name.upper()}", raising=False)


@pytest.mark.contract("D-71", "D-72", "D-73", "D-09")
@pytest.mark.parametrize(
    ("phase", "notify", "poll"),
    [("1", "off", 2), ("2", "after_commit", 2), ("3", "after_commit", 30), ("4", "after_commit", 30),
     ("5", "after_commit", 30)],
)  # fmt: skip
def test_a_phase_sets_both_settings(monkeypatch: pytest.MonkeyPatch, phase: str, notify: str, poll: float) -> None:
    monkeypatch.setenv("PENSTOCK_VAULT_PHASE", phase)
    settings = load_settings()
    assert (str(settings.notify), settings.poll_seconds) == (notify, poll)
    assert phases.phase_here(settings) == int(phase)


@pytest.mark.contract("D-71", "D-73")
def test_what_is_set_by_itself_goes_before_the_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_VAULT_PHASE", "1")
    monkeypatch.setenv("PENSTOCK_POLL_SECONDS", "7")
    settings = load_settings()
    assert (str(settings.notify), settings.poll_seconds, phases.phase_here(settings)) == ("off", 7, None)
    assert load_settings(notify="on", poll_seconds=30).poll_seconds == 30


@pytest.mark.parametrize("wrong", ["0", "6", "two", "-1", "1.5"])
def test_a_phase_that_is_none_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("PENSTOCK_VAULT_PHASE", wrong)
    with pytest.raises(SettingsInvalid, match="PENSTOCK_VAULT_PHASE must be"):
        load_settings()


def test_without_a_phase_nothing_is_filled_and_the_defaults_are_the_last_phase() -> None:
    settings = load_settings()
    assert settings.vault_phase is None
    assert (settings.notify, settings.poll_seconds) == (phases.BY_NUMBER[5].notify, phases.BY_NUMBER[5].poll_seconds)


@pytest.mark.contract("D-74")
def test_every_phase_says_what_to_watch_and_how_to_go_back() -> None:
    assert [phase.number for phase in phases.PHASES] == [1, 2, 3, 4, 5]
    assert all(phase.watch and phase.back for phase in phases.PHASES)
    assert "one week" in phases.BY_NUMBER[4].does


@pytest.mark.contract("D-74", "D-71", "D-72", "D-73")
def test_the_runbook_and_the_settings_say_the_same_of_every_phase() -> None:
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "roll-out-notify.md").read_text()
    for phase in phases.PHASES:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {phase.number} |")]
        pokes, poll = (cell.strip() for cell in row.split("|")[3:5])
        assert (pokes == "off", poll) == (phase.notify == "off", f"{phase.poll_seconds:g} s")
        assert all(metric in page for metric in phase.watch)


@pytest.mark.contract("D-74")
async def test_a_running_worker_tells_its_phase(world: World) -> None:
    async with working(world.worker, notify="off", poll_seconds=2):
        (found,) = await phases.standings(world.owner)
        assert (found.notify, found.poll_seconds, found.phase) == ("off", 2, 1)
        assert phases.agreed([found], load_settings(vault_phase=5)) is phases.BY_NUMBER[1]
    assert await phases.standings(world.owner) == []


def shown(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def stands(owner: psycopg.Connection[Any], name: str, notify: str, poll: float) -> None:
    """A worker that enriches, as one that is alive has written it down."""
    owner.execute(
        "insert into penstock.workers (worker_id, instance, host, pid, version, types, concurrency, started_at, "
        "heartbeat_at, notify, poll_seconds) values (%s, gen_random_uuid(), 'host', 1, '0', '{enrichment}', 1, "
        "penstock.now(), penstock.now(), %s, %s)", (name, notify, poll),
    )  # fmt: skip


@pytest.fixture
def owner(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """The schema's owner, whose every statement commits."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.mark.contract("D-74")
def test_the_command_tells_where_they_stand_what_to_watch_and_the_way_back(
    owner: psycopg.Connection[Any], penstock: Command
) -> None:
    stands(owner, "one", "after_commit", 2)
    stands(owner, "two", "in_transaction", 2)
    told = shown(penstock("vault", "phase", "--json"))
    assert (told["phase"], told["here"]) == (2, 5)
    assert "job_notification_received_total" in told["watch"]
    assert "PENSTOCK_VAULT_PHASE=1" in told["back"]
    words = penstock("vault", "phase")
    assert words.exit_code == 0
    assert all(word in words.stdout for word in ("two", "Watch: job_", "Back: ", "On: PENSTOCK_VAULT_PHASE=3"))


def test_workers_that_differ_are_an_exit_code(owner: psycopg.Connection[Any], penstock: Command) -> None:
    nobody = penstock("vault", "phase", "--json")
    assert (nobody.exit_code, shown(nobody)["workers"], shown(nobody)["phase"]) == (0, [], None)
    stands(owner, "one", "after_commit", 2)
    stands(owner, "two", "off", 2)
    differ = penstock("vault", "phase")
    assert differ.exit_code == 1
    assert "do not stand at one phase" in differ.stderr
    owner.execute("update penstock.workers set heartbeat_at = penstock.now() - %s where notify = 'off'", (ALIVE * 2,))
    assert shown(penstock("vault", "phase", "--json"))["phase"] == 2, "who went silent stands nowhere"
