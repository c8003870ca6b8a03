"""The schema goes up and down, online and offline, without a superuser."""

import io
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from penstock.contract.errors import MigrationFailed
from penstock.store import migrate
from penstock.store.migrate import Line
from tests.migrations.catalogs import catalog
from tests.support import clusters

INSERT_TYPE = "insert into penstock.types (job_type, policy, stages, max_attempts) values ('t', '{}', '{run}', 3)"


def run(dsn: str, statement: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


@pytest.mark.contract("D-70")
def test_up_then_down_then_up_gives_the_same_schema_and_leaves_foreign_data_alone(empty: clusters.Database) -> None:
    run(empty.dsn, "create table public.legacy as select n from generate_series(1, 100) n")
    migrate.upgrade(empty.dsn)
    first = catalog(empty.dsn)
    run(empty.dsn, INSERT_TYPE)
    run(empty.dsn, "select penstock.enqueue('t', '{}') from generate_series(1, 50)")

    migrate.downgrade(empty.dsn, "base")
    assert run(empty.dsn, "select count(*) from public.legacy") == [(100,)]
    migrate.upgrade(empty.dsn)

    assert catalog(empty.dsn) == first
    assert run(empty.dsn, "select count(*) from penstock.jobs") == [(0,)]
    assert run(empty.dsn, "select count(*) from public.legacy") == [(100,)]


@pytest.mark.contract("D-70")
def test_down_leaves_nothing_but_the_version_table(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn)
    migrate.downgrade(empty.dsn, "base")
    left = catalog(empty.dsn)
    assert [row[0] for row in left["relations"]] == ["schema_version", "schema_version_pkc"]
    assert left["functions"] == []
    assert [row[0] for row in left["types"]] == ["_schema_version", "schema_version"]


def test_down_never_drops_a_role(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn)
    migrate.downgrade(empty.dsn, "base")
    assert len(run(empty.dsn, "select rolname from pg_roles where rolname like 'penstock\\_%'")) >= 4


def test_the_owner_of_the_schema_is_no_superuser(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn)
    owners = run(
        empty.dsn,
        "select distinct r.rolname, r.rolsuper, r.rolbypassrls, r.rolcreaterole from pg_class c "
        "join pg_roles r on r.oid = c.relowner where c.relnamespace = 'penstock'::regnamespace",
    )
    assert owners == [("penstock", False, False, False)]


def test_the_owner_of_a_prepared_schema_needs_no_right_to_create_schemas(empty: clusters.Database) -> None:
    run(empty.superuser_dsn, f"alter database {empty.name} owner to postgres")
    run(empty.superuser_dsn, "create schema penstock authorization penstock")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run(empty.dsn, "create schema other")
    migrate.upgrade(empty.dsn)
    assert migrate.status(empty.dsn)[0].up_to_date


@pytest.mark.parametrize("way", ["psql", "simple query"])
def test_the_offline_script_makes_the_same_schema(way: str, empty: clusters.Database, dsn: str) -> None:
    script = io.StringIO()
    migrate.upgrade_sql(script)
    if way == "psql":
        psql = clusters.binaries_under_test().directory / "psql"
        subprocess.run(
            [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", empty.dsn, "-f", "-"],
            input=script.getvalue(), text=True, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    else:
        run(empty.dsn, script.getvalue())
    assert catalog(empty.dsn) == catalog(dsn)
    assert migrate.status(empty.dsn)[0].up_to_date


def test_the_offline_script_takes_it_down_again(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn)
    script = io.StringIO()
    migrate.downgrade_sql(script, f"{migrate.head()}:base")
    run(empty.dsn, script.getvalue())
    assert migrate.status(empty.dsn)[0].current is None
    assert catalog(empty.dsn)["functions"] == []


def test_two_migrators_at_once_both_succeed_and_one_does_the_work(empty: clusters.Database) -> None:
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(migrate.upgrade, empty.dsn) for _ in range(4)]:
            done.result()
    assert migrate.status(empty.dsn)[0].up_to_date
    assert run(empty.dsn, "select count(*) from penstock.schema_version") == [(1,)]


def test_an_application_adds_its_own_line_with_a_schema_and_a_version_table_of_its_own(
    empty: clusters.Database, ledger: Line
) -> None:
    migrate.upgrade(empty.dsn, to=[migrate.ENGINE])
    engine = catalog(empty.dsn)
    migrate.upgrade(empty.dsn, to=[migrate.ENGINE, ledger])

    assert run(empty.dsn, "select note from ledger.entries") == [("first; of all",)]
    assert run(empty.dsn, "select ledger.count_of('first; of all')") == [(1,)]
    assert [(s.line, s.up_to_date) for s in migrate.status(empty.dsn, [migrate.ENGINE, ledger])] == [
        ("engine", True),
        ("ledger", True),
    ]
    migrate.downgrade(empty.dsn, "l0001", of=[ledger])
    (state,) = migrate.status(empty.dsn, [ledger])
    assert (state.current, state.pending, state.newer) == ("l0001", ("l0002",), False)
    migrate.downgrade(empty.dsn, "base", of=[ledger])
    assert catalog(empty.dsn) == engine


def test_a_version_that_nobody_knows_is_refused_by_name(empty: clusters.Database) -> None:
    with pytest.raises(MigrationFailed, match=r"'9999'.*penstock migrate status"):
        migrate.upgrade(empty.dsn, "9999")
