"""`penstock migrate` in the user's words and with its exit codes."""

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner, Result

from penstock.cli import cli
from penstock.store import migrate
from penstock.store.migrate import Line
from tests.migrations.catalogs import catalog
from tests.support import clusters

Command = Callable[..., Result]


@pytest.fixture
def command(empty: clusters.Database, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`penstock migrate …` on an empty database."""
    monkeypatch.setenv("PENSTOCK_DSN", empty.dsn)
    runner = CliRunner()
    return lambda *words: runner.invoke(cli, ["migrate", *words])


@pytest.fixture
def with_ledger(ledger: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    """The made-up application, installed with its entry point."""
    info = tmp_path / "ledger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penstock.migrations]\nledger = tests.migrations.ledger:LEDGER\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return ledger


def test_up_says_what_it_did_and_the_second_time_that_there_is_nothing_to_do(command: Command) -> None:
    first, second = command("up"), command("up")
    assert (first.exit_code, first.stdout) == (0, f"engine: base -> {migrate.head()}\n")
    assert (second.exit_code, second.stdout) == (0, f"engine: already at {migrate.head()}; nothing to do.\n")


def test_status_tells_a_missing_schema_with_exit_code_5_and_a_good_one_with_0(command: Command) -> None:
    missing = command("status", "--json")
    assert missing.exit_code == 5
    assert json.loads(missing.stdout) == [
        {
            "line": "engine",
            "current": None,
            "head": migrate.head(),
            "state": "missing",
            "pending": [*migrate.versions()],
        }
    ]
    assert "penstock migrate up" in command("status").stderr
    command("up")
    good = command("status", "--json")
    assert (good.exit_code, json.loads(good.stdout)[0]["state"]) == (0, "up to date")


def test_a_schema_of_a_newer_penstock_is_left_alone_with_exit_code_5(
    command: Command, empty: clusters.Database
) -> None:
    command("up")
    with psycopg.connect(empty.dsn) as connection:
        connection.execute("update penstock.schema_version set version_num = '0999'")
    before = catalog(empty.dsn)
    for words in (["up"], ["down", "base", "--yes"]):
        refused = command(*words)
        assert refused.exit_code == 5
        assert "0999" in refused.stderr
    assert catalog(empty.dsn) == before
    assert json.loads(command("status", "--json").stdout)[0]["state"] == "newer than this Penstock"


def test_down_needs_a_yes_where_nobody_can_be_asked(command: Command, empty: clusters.Database) -> None:
    command("up")
    before = catalog(empty.dsn)
    refused = command("down", "base")
    assert refused.exit_code == 6
    assert "--yes" in refused.stderr
    assert catalog(empty.dsn) == before
    done = command("down", "base", "--yes", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)[0]["current"] is None


def test_the_script_needs_no_database_and_is_what_up_would_run(
    command: Command, empty: clusters.Database, monkeypatch: pytest.MonkeyPatch, dsn: str
) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", "postgresql://nobody@127.0.0.1:1/none")
    up, down = command("up", "--sql"), command("down", "base", "--sql")
    assert (up.exit_code, down.exit_code) == (0, 0)
    with psycopg.connect(empty.dsn, autocommit=True) as connection:
        connection.execute(up.stdout)
        assert catalog(empty.dsn) == catalog(dsn)
        connection.execute(down.stdout)
    assert catalog(empty.dsn)["functions"] == []


def test_a_server_that_is_away_is_exit_code_4(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", "postgresql://u:hunter2@127.0.0.1:1/none")
    away = command("up")
    assert away.exit_code == 4
    assert "does not answer" in away.stderr
    assert "hunter2" not in away.output


def test_an_unknown_version_or_line_is_refused_by_name(command: Command) -> None:
    version, line = command("up", "0999"), command("up", "--line", "nowhere")
    assert (version.exit_code, line.exit_code) == (1, 2)
    assert "0999" in version.stderr
    assert "engine" in line.stderr


def test_a_lock_held_elsewhere_ends_in_exit_code_1_and_the_old_schema(
    command: Command, empty: clusters.Database
) -> None:
    command("up")
    before = catalog(empty.dsn)
    with psycopg.connect(empty.dsn) as reader:
        reader.execute("select count(*) from penstock.jobs")
        blocked = command("down", "base", "--yes", "--lock-timeout", "0.1")
    assert blocked.exit_code == 1
    assert "Nothing was changed" in blocked.stderr
    assert catalog(empty.dsn) == before


def test_an_installed_application_goes_up_with_the_engine_and_down_before_it(
    command: Command, empty: clusters.Database, with_ledger: Line
) -> None:
    assert command("up").exit_code == 0
    assert [row["state"] for row in json.loads(command("status", "--json").stdout)] == ["up to date"] * 2

    refused = command("down", "base", "--line", "engine", "--yes")
    assert refused.exit_code == 6
    assert f"--line {with_ledger.name}" in refused.stderr
    assert command("up", "l0001").exit_code == 2

    assert command("down", "base", "--line", "ledger", "--yes").exit_code == 0
    assert command("down", "base", "--line", "engine", "--yes").exit_code == 0
    assert catalog(empty.dsn)["functions"] == catalog(empty.dsn, "ledger")["functions"] == []


@pytest.mark.usefixtures("with_ledger")
def test_down_base_takes_every_line_down_or_none(command: Command, empty: clusters.Database) -> None:
    command("up")
    before = catalog(empty.dsn), catalog(empty.dsn, "ledger")
    unasked = command("down", "base")
    assert unasked.exit_code == 6
    assert "loses the data of engine and ledger" in unasked.stderr
    with psycopg.connect(empty.dsn) as reader:  # the engine goes last, after the ledger is gone
        reader.execute("select count(*) from penstock.jobs")
        assert command("down", "base", "--yes", "--lock-timeout", "0.1").exit_code == 1
    assert (catalog(empty.dsn), catalog(empty.dsn, "ledger")) == before

    done = command("down", "base", "--yes")
    assert (done.exit_code, done.stdout) == (0, f"engine: {migrate.head()} -> base\nledger: l0002 -> base\n")
    again = command("down", "base")
    assert (again.exit_code, again.stdout.count("nothing to do")) == (0, 2)
    assert command("up").exit_code == 0
    assert (catalog(empty.dsn), catalog(empty.dsn, "ledger")) == before


@pytest.mark.usefixtures("with_ledger")
def test_a_version_without_a_line_is_the_engines_on_the_way_down(command: Command) -> None:
    command("up")
    refused = command("down", migrate.head(), "--yes")
    assert (refused.exit_code, "ledger stands on the engine" in refused.stderr) == (6, True)


@pytest.mark.usefixtures("with_ledger")
def test_an_application_does_not_go_up_without_the_engine(command: Command, empty: clusters.Database) -> None:
    refused = command("up", "l0001", "--line", "ledger")
    assert refused.exit_code == 5
    assert "ledger stands on the engine" in refused.stderr
    assert "`penstock migrate up --line engine`" in refused.stderr
    assert catalog(empty.dsn, "ledger") == {}


@pytest.mark.usefixtures("with_ledger")
def test_the_ends_of_a_script_are_given_as_from_and_to(command: Command) -> None:
    script = command("up", "l0001:head", "--line", "ledger", "--sql")
    assert script.exit_code == 0
    assert "this script takes ledger up from l0001" in script.stdout
    assert "create table ledger.entries" not in script.stdout
    assert command("up", "l0001:head", "--sql").exit_code == 2
    assert command("down", migrate.head(), "--sql").exit_code == 1
