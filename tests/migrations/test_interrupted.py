"""A migration that does not come to its end leaves the version before it usable."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from penstock.contract.errors import DatabaseUnavailable, MigrationFailed
from penstock.store import migrate
from penstock.store.migrate import Line
from tests.migrations.catalogs import catalog
from tests.support import clusters

PATIENCE = 20.0


@pytest.fixture
def applied(empty: clusters.Database, ledger: Line) -> clusters.Database:
    """A database with the engine and the first version of an application, in use."""
    migrate.upgrade(empty.dsn, to=[migrate.ENGINE])
    migrate.upgrade(empty.dsn, "l0001", to=[ledger])
    return empty


@pytest.fixture
def held(applied: clusters.Database) -> Iterator[psycopg.Connection]:
    """A session that holds the lock on which the second version waits."""
    with psycopg.connect(applied.dsn) as connection:
        connection.execute("select pg_advisory_xact_lock(4711)")
        yield connection


def snapshot(database: clusters.Database, line: Line) -> list[object]:
    return [
        catalog(database.dsn),
        catalog(database.dsn, "ledger"),
        migrate.status(database.dsn, [migrate.ENGINE, line]),
    ]


def still_works(database: clusters.Database) -> None:
    with psycopg.connect(database.dsn) as connection:
        connection.execute("insert into ledger.entries (note) values ('after the interruption')")
        connection.execute(
            "insert into penstock.types (job_type, policy, stages, max_attempts) values ('t', '{}', '{run}', 1)"
        )
        assert connection.execute("select penstock.enqueue('t')").fetchone() is not None


def wait_for_the_migration_to_block(connection: psycopg.Connection) -> int:
    """The backend of the migration, once it waits for the lock that *connection* holds."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        rows = connection.execute(
            "select pid from pg_locks where locktype = 'advisory' and not granted and objid = 4711"
        ).fetchall()
        if rows:
            return int(rows[0][0])
        time.sleep(0.02)
    raise AssertionError("the migration never came to its lock")


def migrator(dsn: str, line: Line) -> subprocess.Popen[bytes]:
    """A process that brings *line* up."""
    code = (
        "import sys; from pathlib import Path; from penstock.store import migrate\n"
        "line = migrate.Line(sys.argv[2], Path(sys.argv[3]), sys.argv[4])\n"
        "migrate.upgrade(sys.argv[1], to=[line], lock_timeout=60)"
    )
    return subprocess.Popen([sys.executable, "-c", code, dsn, line.name, str(line.versions), line.schema])


def test_a_migrator_killed_in_the_middle_leaves_the_old_version_in_use(
    applied: clusters.Database, held: psycopg.Connection, ledger: Line
) -> None:
    before = snapshot(applied, ledger)
    process = migrator(applied.dsn, ledger)
    backend = wait_for_the_migration_to_block(held)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    held.execute("select pg_terminate_backend(%s)", [backend])  # the server need not notice the client's death at once
    held.rollback()

    assert snapshot(applied, ledger) == before
    still_works(applied)
    migrate.upgrade(applied.dsn, to=[ledger])
    assert migrate.status(applied.dsn, [ledger])[0].up_to_date


def test_a_backend_ended_in_the_middle_changes_nothing_and_says_so(
    applied: clusters.Database, held: psycopg.Connection, ledger: Line
) -> None:
    before = snapshot(applied, ledger)
    process = migrator(applied.dsn, ledger)
    held.execute("select pg_terminate_backend(%s)", [wait_for_the_migration_to_block(held)])
    assert process.wait(PATIENCE) != 0
    held.rollback()
    assert snapshot(applied, ledger) == before


def test_an_error_in_the_middle_changes_nothing(applied: clusters.Database, ledger: Line) -> None:
    before = snapshot(applied, ledger)
    with psycopg.connect(applied.superuser_dsn, autocommit=True) as connection:
        connection.execute(f"alter database {applied.name} set ledger.divisor = '0'")
    with pytest.raises(MigrationFailed, match=r"nothing was changed: .*division by zero"):
        migrate.upgrade(applied.dsn, to=[ledger])
    assert snapshot(applied, ledger) == before
    still_works(applied)


def test_a_long_transaction_in_the_way_makes_it_give_up_in_time(applied: clusters.Database, ledger: Line) -> None:
    before = snapshot(applied, ledger)
    with psycopg.connect(applied.dsn) as reader:
        reader.execute("select count(*) from ledger.entries")
        with pytest.raises(MigrationFailed, match=r"nothing was changed: .*long transactions.*penstock doctor"):
            migrate.upgrade(applied.dsn, to=[ledger], lock_timeout=0.1)
        assert snapshot(applied, ledger) == before
        still_works(applied)
    migrate.upgrade(applied.dsn, to=[ledger])


def test_lines_go_up_together_or_not_at_all(empty: clusters.Database, ledger: Line) -> None:
    with psycopg.connect(empty.superuser_dsn, autocommit=True) as connection:
        connection.execute(f"alter database {empty.name} set ledger.divisor = '0'")
    with pytest.raises(MigrationFailed):
        migrate.upgrade(empty.dsn, to=[migrate.ENGINE, ledger])
    assert catalog(empty.dsn) == catalog(empty.dsn, "ledger") == {}


def test_a_login_that_owns_nothing_is_told_to_use_the_owner(applied: clusters.Database, ledger: Line) -> None:
    before = snapshot(applied, ledger)
    with pytest.raises(MigrationFailed, match=r"nothing was changed: permission denied .*owner of the schema"):
        migrate.upgrade(applied.role_dsn("penstock_worker"), to=[ledger])
    assert snapshot(applied, ledger) == before


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("postgresql://nobody@/none?host=/nonexistent", "does not answer"),
        ("postgresql://u:hunter2@127.0.0.1:1/db", "does not answer"),
        ("this is no dsn", "not a usable DSN"),
    ],
)
def test_a_server_that_is_away_is_told_without_the_password(dsn: str, words: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=words) as raised:
        migrate.upgrade(dsn)
    assert "hunter2" not in str(raised.value)


def test_a_server_too_old_is_refused_before_anything_is_made(
    empty: clusters.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "OLDEST_SERVER", 99)
    with pytest.raises(DatabaseUnavailable, match="needs 99 or newer"):
        migrate.upgrade(empty.dsn)
    assert catalog(empty.dsn) == {}


def test_versions_of_the_engine_are_numbered_files_of_one_line() -> None:
    known = migrate.versions()
    files = sorted(path.stem for path in Path(migrate.ENGINE.versions).glob("v*.py"))
    assert list(known) == sorted(known)
    assert [name[1:5] for name in files] == list(known)
