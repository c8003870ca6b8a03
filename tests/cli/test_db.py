"""`penstock db` in the words and exit codes its user sees."""

import json
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner, Result

from penstock.cli.db import FAILED, IN_USE, NOT_RUNNING, app
from penstock.embedded import EmbeddedServer, binaries


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(home))


def db(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_a_started_server_stays_up_and_hands_out_a_working_url() -> None:
    started = db("start")
    assert started.exit_code == 0, started.output
    url = db("url").stdout.strip()
    assert url in started.stdout
    with psycopg.connect(url) as connection:
        assert connection.info.user == "penstock"
    assert db("url", "--superuser").stdout.startswith("postgresql://postgres@")


@pytest.mark.usefixtures("made_home")
def test_starting_twice_is_no_error() -> None:
    assert db("start").exit_code == 0
    assert db("start").exit_code == 0


def test_status_tells_the_same_to_people_and_to_programs(made_home: Path) -> None:
    db("start")
    found = json.loads(db("status", "--json").stdout)
    assert found["running"]
    assert found["pinned"]
    assert found["home"] == str(made_home)
    assert found["version"].startswith("18.")
    shown = db("status")
    assert shown.exit_code == 0
    assert str(found["pid"]) in shown.stdout
    assert "running until" in shown.stdout


def test_a_server_that_is_down_answers_with_exit_code_three() -> None:
    shown = db("status", "--json")
    assert shown.exit_code == NOT_RUNNING
    assert not json.loads(shown.stdout)["running"]
    assert db("status").exit_code == NOT_RUNNING
    assert db("url").exit_code == NOT_RUNNING
    assert "penstock db start" in db("url").stderr


@pytest.mark.usefixtures("made_home")
def test_stop_stops_it_and_stopping_again_is_no_error() -> None:
    db("start")
    assert db("stop").exit_code == 0
    assert db("status").exit_code == NOT_RUNNING
    assert db("stop").exit_code == 0


def test_stop_names_the_processes_in_the_way_and_force_overrides_them(made_home: Path) -> None:
    holder = EmbeddedServer(made_home)
    holder.hold()
    refused = db("stop")
    assert refused.exit_code == IN_USE
    assert str(holder.status().holders[0]) in refused.stderr
    assert "--force" in refused.stderr

    assert db("stop", "--force").exit_code == 0
    assert not holder.status().running
    holder.release()


def test_a_home_that_cannot_be_used_is_a_sentence_not_a_traceback(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("PENSTOCK_HOME", str(home / "file"))
    refused = db("start")
    assert refused.exit_code == FAILED
    assert "Set PENSTOCK_HOME" in refused.stderr


def test_without_the_embedded_extra_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "PACKAGE", "no_such_package")
    refused = db("start")
    assert refused.exit_code == FAILED
    assert "penstock[embedded]" in refused.stderr
    assert "PENSTOCK_DSN" in refused.stderr
