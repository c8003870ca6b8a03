"""`penstock doctor` in the user's words and with its exit codes."""

import json
import re
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from penstock.cli import cli
from penstock.store.checks import login, schema, server, session, work
from tests.support import clusters


@pytest.fixture
def sound(database: clusters.Database, monkeypatch: pytest.MonkeyPatch) -> clusters.Database:
    """A database without faults, but for those of a server that runs tests."""
    monkeypatch.setenv("PENSTOCK_DSN", database.dsn)
    with psycopg.connect(database.superuser_dsn, autocommit=True) as connection:
        connection.execute(f"alter database {database.name} set synchronous_commit = on")
    return database


def test_findings_come_with_remedies_and_exit_code_7(sound: clusters.Database) -> None:
    with psycopg.connect(sound.dsn) as connection:
        connection.execute("insert into penstock.clock (shift) values ('1 hour')")
    told = CliRunner().invoke(cli, ["doctor"])
    assert told.exit_code == 7
    assert "the clock of this database is wound by 1:00:00" in told.stdout
    assert "delete from penstock.clock" in told.stdout


def test_json_holds_every_finding(sound: clusters.Database) -> None:
    told = CliRunner().invoke(cli, ["doctor", "--json"])
    found = json.loads(told.stdout)
    assert {"check", "severity", "finding", "remedy"} == set(found[0])
    problems = {row["check"] for row in found if row["severity"] != "note"}
    assert problems == {"durability"}, "only the test server's own settings are at fault"
    assert told.exit_code == 7
    assert sound.name not in told.stdout


def test_a_database_without_faults_is_exit_code_0(sound: clusters.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fast_but_sound(_: object) -> list[object]:
        return []

    monkeypatch.setattr("penstock.store.checks.server.CHECKS", (fast_but_sound,))
    told = CliRunner().invoke(cli, ["doctor"])
    assert (told.exit_code, told.stdout.splitlines()[-1]) == (0, "Nothing is wrong.")
    assert sound.name


def test_a_server_that_is_away_is_exit_code_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", "postgresql://u:hunter2@127.0.0.1:1/none")
    told = CliRunner().invoke(cli, ["doctor"])
    assert told.exit_code == 4
    assert "hunter2" not in told.output


def test_the_reference_names_every_check() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "doctor.md").read_text()
    named = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    checks = (*server.CHECKS, *login.CHECKS, *session.CHECKS, *schema.ALWAYS, *schema.CHECKS, *work.CHECKS)
    assert named == {check.__name__ for check in checks}
