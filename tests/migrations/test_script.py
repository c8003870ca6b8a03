"""A version that is a script goes to the server whole, and leaves nothing when it does not come to its end."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from penstock.contract.errors import DatabaseUnavailable, MigrationFailed
from penstock.store import migrate
from penstock.store.migrate import Line
from tests.migrations.catalogs import catalog
from tests.migrations.test_interrupted import PATIENCE, wait_for_the_migration_to_block
from tests.support import clusters

VERSION = """
from pathlib import Path
from penstock.store.migrations import script

revision, down_revision, branch_labels, depends_on = "s0001", None, None, None


def upgrade():
    script.run("up.sql", folder=Path(__file__).parent)
"""
SCRIPT = """
create table scripted.first (note text default 'a;b: $1 %s');
select pg_advisory_xact_lock(4711);
select 1 / (current_setting('scripted.divisor', true) is distinct from '0')::integer;
create table scripted.last (n integer)
"""


@pytest.fixture
def scripted(tmp_path: Path) -> Line:
    """A line whose only version waits for a lock that a test may hold, and fails when a test says so."""
    (tmp_path / "v0001_scripted.py").write_text(VERSION)
    (tmp_path / "up.sql").write_text(SCRIPT)
    return Line("scripted", tmp_path, "scripted")


@pytest.fixture
def held(empty: clusters.Database) -> Iterator[psycopg.Connection]:
    """A session that holds the lock on which the script waits."""
    with psycopg.connect(empty.dsn) as connection:
        connection.execute("select pg_advisory_xact_lock(4711)")
        yield connection


@pytest.fixture
def begun(held: psycopg.Connection, empty: clusters.Database, scripted: Line) -> Iterator[Future[None]]:
    """The way up, which waits for the lock."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(migrate.upgrade, empty.dsn, to=[scripted], lock_timeout=PATIENCE)
        held.rollback()


def test_the_server_has_the_whole_script_while_it_runs_the_first_statements(
    begun: Future[None], held: psycopg.Connection, empty: clusters.Database, scripted: Line
) -> None:
    backend = wait_for_the_migration_to_block(held)
    row = held.execute("select query from pg_stat_activity where pid = %s", [backend]).fetchone()
    assert row == (SCRIPT,)
    held.rollback()
    begun.result(PATIENCE)
    assert migrate.status(empty.dsn, [scripted])[0].up_to_date
    tables = {name for name, *_ in catalog(empty.dsn, "scripted")["columns"]}
    assert tables == {"first", "last", "schema_version"}


def test_a_backend_ended_in_a_script_is_told_as_that_and_changes_nothing(
    begun: Future[None], held: psycopg.Connection, empty: clusters.Database
) -> None:
    held.execute("select pg_terminate_backend(%s)", [wait_for_the_migration_to_block(held)])
    assert isinstance(begun.exception(PATIENCE), DatabaseUnavailable)
    assert "does not answer" in str(begun.exception())
    assert catalog(empty.dsn, "scripted") == {}


def test_a_script_that_does_not_get_its_lock_gives_up_and_changes_nothing(
    held: psycopg.Connection, empty: clusters.Database, scripted: Line
) -> None:
    with pytest.raises(MigrationFailed, match=r"nothing was changed: .*long transactions.*penstock doctor"):
        migrate.upgrade(empty.dsn, to=[scripted], lock_timeout=0.1)
    assert catalog(empty.dsn, "scripted") == {}
    held.rollback()
    migrate.upgrade(empty.dsn, to=[scripted])


def test_an_error_in_a_script_changes_nothing(empty: clusters.Database, scripted: Line) -> None:
    with psycopg.connect(empty.superuser_dsn, autocommit=True) as connection:
        connection.execute(f"alter database {empty.name} set scripted.divisor = '0'")
    with pytest.raises(MigrationFailed, match=r"nothing was changed: .*refused a statement: division by zero"):
        migrate.upgrade(empty.dsn, to=[scripted])
    assert catalog(empty.dsn, "scripted") == {}
