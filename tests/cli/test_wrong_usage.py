"""Values that no command can use: a sentence and exit code 2, and never a bug of ours."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import cli
from penstock.cli.exits import USAGE, exit_code
from penstock.store import connect
from penstock.store.refusals import explained
from tests.support.desk import Desk
from tests.support.desks import Command
from tests.support.processes import run_penstock

NO_TEXT = "\udcff"  # how the byte ff of a command line arrives
LONG_LABEL = "a" * 300


@pytest.mark.parametrize("option", ["--older-than", "--newer-than"])
@pytest.mark.parametrize("hours", ["1e300", "inf", "nan", "99999999"])
def test_an_age_that_no_letter_can_have_is_wrong_usage(penstock: Command, option: str, hours: str) -> None:
    done = penstock("dead", "list", option, hours)
    assert (done.exit_code, option in done.stderr) == (USAGE, True), done.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("types", "limits", "noop", "--running", "2147483648"),
        ("types", "limits", "noop", "--key-running", "2147483648"),
        ("types", "limits", "noop", "--rate", "99999999999999999999/s"),
        ("types", "limits", "noop", "--rate", "2147483648/s"),
        ("types", "limits", "noop", "--rate", "1/99999999999999s"),
        ("types", "limits", "noop", "--key-rate", "1/367d"),
        ("types", "limits", "noop", "--rate", "1/0.0000001s"),
        ("alerts", "ack", "9223372036854775808"),
        ("alerts", "ack", "--", "-9223372036854775809"),
        ("dead", "replay", "--type", "x", "--limit", "99999999999999999999"),
        ("vault", "takeover", "quarantine", "--after", "9223372036854775808"),
        ("emulator", "--host", LONG_LABEL),
        ("run", "reaper", "--concurrency", "99999999999999"),
    ],
)
def test_a_number_or_a_name_that_nothing_holds_is_wrong_usage(
    desk: Desk, penstock: Command, arguments: tuple[str, ...]
) -> None:
    desk.sync_types()
    done = penstock(*arguments)
    assert done.exit_code == USAGE, done.output
    assert done.stderr


def test_the_widest_values_are_taken(desk: Desk, penstock: Command) -> None:
    desk.sync_types()
    wide = ("--running", "2147483647", "--rate", "2147483647/366d")
    assert penstock("types", "limits", "noop", *wide).exit_code == 0
    assert penstock("dead", "list", "--older-than", "876600", "--newer-than", "876600").exit_code == 0


@pytest.mark.parametrize("result", ["NaN", "Infinity", '{"a": [-Infinity]}'])
def test_what_only_python_takes_for_json_is_none(penstock: Command, result: str) -> None:
    done = penstock("effects", "resolve", "mail:1", "--happened", "--result", result)
    assert (done.exit_code, "no JSON" in done.stderr) == (USAGE, True), done.output


@pytest.mark.parametrize(
    "arguments",
    [("jobs", "list", "--type", NO_TEXT), ("types", "pause", NO_TEXT), ("serve", "--host", NO_TEXT), (NO_TEXT,)],
)
def test_an_argument_that_is_no_utf_8_is_wrong_usage(penstock: Command, arguments: tuple[str, ...]) -> None:
    done = penstock(*arguments)
    assert (done.exit_code, "is no UTF-8" in done.stderr) == (USAGE, True), done.output


def test_bytes_of_a_real_command_line_are_told_in_a_sentence(desk: Desk) -> None:
    done = run_penstock(["jobs", "list", "--type", NO_TEXT], desk.dsn, cold=True)
    assert (done.returncode, done.stderr) == (USAGE, "The argument '\\udcff' is no UTF-8; write it in UTF-8.\n")


def test_a_payload_file_that_is_no_utf_8_is_wrong_usage(penstock: Command, tmp_path: Path) -> None:
    (tmp_path / "payload").write_bytes(b'"\xff"')
    done = penstock("jobs", "enqueue", "noop", f"@{tmp_path / 'payload'}")
    assert (done.exit_code, "is no UTF-8" in done.stderr) == (USAGE, True), done.output


def test_a_user_whose_name_is_no_text_is_unknown(
    desk: Desk, penstock: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.sync_types()
    monkeypatch.setenv("LOGNAME", NO_TEXT)
    assert penstock("types", "pause", "noop").exit_code == 0
    assert desk.row("select paused_by from penstock.types where job_type = 'noop'")["paused_by"] == "unknown"


def test_a_password_that_is_no_text_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_WORKER_PASSWORD", NO_TEXT)
    done = CliRunner().invoke(cli, ["roles", "create"])
    assert (done.exit_code, "UTF-8" in done.stderr) == (USAGE, True), done.output


@pytest.mark.parametrize(("statement", "value"), [("select $1::int", 2**31), ("select $1::text", NO_TEXT)])
async def test_what_the_driver_cannot_send_is_wrong_usage_and_not_repeated(
    dsn: str, statement: str, value: object
) -> None:
    connection = await connect.connect(dsn)
    try:
        with pytest.raises(Exception, match="invalid input for query argument") as raised:
            await connection.fetch(statement, value)
    finally:
        await connection.close()
    known = explained(raised.value)
    assert known is not None
    assert (exit_code(known), str(value) in str(known)) == (USAGE, False)


async def test_what_the_server_cannot_compute_stays_a_bug(dsn: str) -> None:
    connection = await connect.connect(dsn)
    try:
        with pytest.raises(Exception, match="division by zero") as raised:
            await connection.fetch("select 1 / 0")
    finally:
        await connection.close()
    assert explained(raised.value) is None
