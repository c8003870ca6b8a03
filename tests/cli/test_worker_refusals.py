"""What `penstock worker` refuses to start with: the words, the exit code, and nothing half-done."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from penstock.cli import cli
from penstock.embedded import EmbeddedServer
from penstock.engine import births
from penstock.store.roles import WORKER
from tests.support import clusters
from tests.support.desk import Desk
from tests.support.processes import SAMPLE, run_penstock

SECRET = "sesame-9431"  # noqa: S105 - it must not be seen again


def worker(dsn: str, *options: str, app: str = SAMPLE, env: dict[str, str] | None = None) -> tuple[int, str]:
    done = run_penstock(["worker", app, *options] if app else ["worker", *options], dsn, env=env)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def here(dsn: str, *options: str, app: str = SAMPLE) -> tuple[int, str]:
    """The same in this process: for what is refused before a worker begins, as it would end the process."""
    done = CliRunner().invoke(
        cli, ["worker", app, *options] if app else ["worker", *options], env={"PENSTOCK_DSN": dsn}
    )
    return done.exit_code, done.stderr


def test_a_superuser_is_refused_with_6(superuser_dsn: str) -> None:
    code, said = worker(superuser_dsn, "--types", "noop")
    assert code == 6
    assert "is a superuser" in said
    assert "penstock_worker" in said
    assert "--insecure" in said


def test_a_login_exempt_from_row_level_security_is_refused_with_6(
    shared_server: EmbeddedServer, admin: psycopg.Connection[Any], desk: Desk, database: Any
) -> None:
    admin.execute("create role exempt login bypassrls in role penstock_worker")
    try:
        code, said = worker(shared_server.url("exempt", database.name), "--types", "noop")
    finally:
        admin.execute("drop role exempt")
    assert code == 6
    assert "BYPASSRLS" in said
    assert desk.row("select count(*) from penstock.workers")["count"] == 0


def test_insecure_accepts_the_risk(desk: Desk, superuser_dsn: str) -> None:
    started = desk.worker("--types", "noop", "--insecure", dsn=superuser_dsn).ready()
    assert started.stop() == 0


def test_two_workers_of_one_name_are_refused_with_6(desk: Desk) -> None:
    desk.name_taken("twin")
    code, said = worker(desk.worker_dsn, "--types", "noop", "--name", "twin")
    assert code == 6
    assert "'twin' belongs to a worker that is alive" in said
    assert "--name" in said


def test_a_worker_elsewhere_that_speaks_keeps_its_name(desk: Desk) -> None:
    desk.name_taken("twin", process="another machine@1")
    second = desk.worker("--types", "noop", "--name", "twin")
    second.wait_for("worker_name_awaited", worker_id="twin", host="host")
    desk.owner.execute("update penstock.workers set heartbeat_at = penstock.now()")
    assert second.ended() == 6


def test_the_name_of_a_worker_elsewhere_is_taken_once_it_has_been_silent_for_a_minute(desk: Desk) -> None:
    desk.name_taken("twin", process="another machine@1")
    second = desk.worker("--types", "noop", "--name", "twin")
    second.wait_for("worker_name_awaited", worker_id="twin", host="host")
    desk.pass_time(seconds=61)
    assert second.ready().stop() == 0


def test_a_signal_ends_the_wait_for_a_name(desk: Desk) -> None:
    desk.name_taken("twin", process="another machine@1")
    second = desk.worker("--types", "noop", "--name", "twin")
    second.wait_for("worker_name_awaited")
    second.send(signal.SIGTERM)
    assert second.ended() == 6


def test_a_killed_worker_gets_its_name_back_at_once(desk: Desk) -> None:
    first = desk.worker("--types", "noop", "--name", "phoenix").ready()
    first.send(signal.SIGKILL)  # nobody asks for its end yet: a process that is dead but has a pid
    second = desk.worker("--types", "noop", "--name", "phoenix").ready()
    assert not second.seen("worker_name_awaited")
    second.send(signal.SIGKILL)
    second.ended()
    third = desk.worker("--types", "noop", "--name", "phoenix").ready()
    assert not third.seen("worker_name_awaited")
    assert third.stop() == 0


def test_a_pid_that_another_process_has_got_does_not_keep_a_name(desk: Desk) -> None:
    here = str(births.birth()).rpartition("@")[0]
    desk.name_taken("phoenix", process=f"{here}@1")
    second = desk.worker("--types", "noop", "--name", "phoenix").ready()
    assert not second.seen("worker_name_awaited")
    assert second.stop() == 0


def test_the_name_of_a_dead_worker_of_another_login_is_taken_once_it_has_been_silent_for_a_minute(desk: Desk) -> None:
    here = str(births.birth()).rpartition("@")[0]
    desk.name_taken("phoenix", process=f"{here}@1", login="the_login_of_before")
    second = desk.worker("--types", "noop", "--name", "phoenix")
    second.wait_for("worker_name_awaited", worker_id="phoenix", host="host")
    desk.pass_time(seconds=61)
    assert second.ready().stop() == 0
    assert desk.row("select db_user from penstock.workers where worker_id = 'phoenix'") == {"db_user": WORKER}


@pytest.fixture
def bare(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[str]:
    """A database without a schema."""
    clusters.create(admin, "bare")
    yield shared_server.url("penstock_worker", "bare")
    admin.execute("drop database bare with (force)")


def test_a_missing_schema_is_refused_with_5_and_the_next_step(bare: str) -> None:
    code, said = worker(bare, "--types", "noop")
    assert code == 5
    assert "penstock migrate up" in said


@pytest.mark.parametrize(("version", "next_step"), [("0000", "penstock migrate up"), ("9999", "newer Penstock")])
def test_a_schema_of_another_version_is_refused_with_5(desk: Desk, version: str, next_step: str) -> None:
    desk.owner.execute("update penstock.schema_version set version_num = %s", (version,))
    code, said = worker(desk.worker_dsn, "--types", "noop")
    assert code == 5
    assert version in said
    assert next_step in said


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_server_that_is_away_is_refused_with_4_and_no_password(processes: str) -> None:
    dsn = f"postgresql://somebody:{SECRET}@127.0.0.1:1/nowhere"
    code, said = worker(dsn, "--types", "noop", "--processes", processes)
    assert code == 4
    assert "127.0.0.1:1" in said
    assert SECRET not in said


def test_a_dsn_that_is_none_is_refused_with_2_and_not_repeated() -> None:
    code, said = worker(f"mysql://somebody:{SECRET}@host/db")
    assert code == 2
    assert "PENSTOCK_DSN" in said
    assert SECRET not in said


def test_a_database_that_does_not_exist_is_refused_with_4(shared_server: EmbeddedServer) -> None:
    code, said = worker(shared_server.url("penstock_worker", "nowhere"))
    assert code == 4
    assert "no such database" in said


def test_no_application_is_wrong_usage_and_the_way_to_name_one_is_shown(desk: Desk) -> None:
    code, said = here(desk.worker_dsn, app="")
    assert code == 2
    assert "MODULE:APP" in said
    assert "PENSTOCK_APP" in said


def test_the_application_may_be_named_by_the_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_APP", SAMPLE)
    code, said = here(desk.worker_dsn, "--types", "nope", app="")
    assert code == 3
    assert "'nope' is not registered" in said


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("no.such.module:app", "there is no module 'no.such.module'"),
        ("tests.support.sample_app:nothing", "has no 'nothing'"),
        ("tests.support.sample_app:noop", "is a JobType, not a Penstock application"),
        ("tests.support.sample_app:app.types", "is a Registry, not a Penstock application"),
    ],
)
def test_an_application_that_is_not_there_is_told_in_a_sentence(desk: Desk, app: str, words: str) -> None:
    code, said = here(desk.worker_dsn, app=app)
    assert code == 2
    assert words.lower() in said.lower()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import missing_library", "it needs 'missing_library'"),
        (f"password = '{SECRET}'\nraise RuntimeError(f'password={{password}}')", "RuntimeError"),
        ("import sys\nsys.exit(3)", "SystemExit"),
        ("from penstock import Penstock\napp = Penstock(concurrency=0)", "PENSTOCK_CONCURRENCY"),
        ("app = None", "is a NoneType"),
    ],
)
def test_a_module_that_breaks_is_told_without_its_secrets(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    name = f"broken_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    code, said = here(desk.worker_dsn, app=f"{name}:app")
    assert code == 2
    assert words in said
    assert SECRET not in said


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--concurrency", "0"), 2, "--concurrency"),
        (("--concurrency", "-5"), 2, "--concurrency"),
        (("--concurrency", "99999999"), 2, "PENSTOCK_CONCURRENCY"),
        (("--processes", "0"), 2, "--processes"),
        (("--poll-seconds", "-1"), 2, "PENSTOCK_POLL_SECONDS"),
        (("--poll-seconds", "nan"), 2, "PENSTOCK_POLL_SECONDS"),
        (("--grace-seconds", "1e9"), 2, "PENSTOCK_GRACE_SECONDS"),
        (("--rss-limit-mb", "1"), 2, "PENSTOCK_RSS_LIMIT_MB"),
        (("--metrics-port", "70000"), 2, "PENSTOCK_METRICS_PORT"),
        (("--log-level", "loud"), 2, "PENSTOCK_LOG_LEVEL"),
        (("--name", "x" * 101), 2, "PENSTOCK_WORKER_NAME"),
        (("--name", "x" * 99, "--processes", "2"), 2, "PENSTOCK_WORKER_NAME and PENSTOCK_PROCESSES"),
        (("--types", "nope"), 3, "'nope' is not registered"),
    ],
)
def test_absurd_options_are_refused_before_anything_starts(
    desk: Desk, options: tuple[str, ...], code: int, words: str
) -> None:
    got, said = here(desk.worker_dsn, *options)
    assert (got, words in said) == (code, True), said
    assert desk.row("select count(*) from penstock.workers")["count"] == 0


def test_a_port_in_use_is_told(desk: Desk, free_port: Callable[[], int]) -> None:
    port = str(free_port())
    desk.worker("--types", "noop", "--metrics-port", port).wait_for("metrics_served")
    code, said = worker(desk.worker_dsn, "--types", "noop", "--metrics-port", port)
    assert code == 1
    assert port in said
    assert "--metrics-port" in said
