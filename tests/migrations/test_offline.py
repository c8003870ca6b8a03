"""A script for somebody else's hands works from where it says it begins, and changes nothing anywhere else."""

import io
from typing import Final

import psycopg
import pytest

from penstock.apps.vault.migrations import LINE as VAULT
from penstock.contract.errors import MigrationFailed
from penstock.store import migrate
from penstock.store.migrate import ENGINE, Line
from tests.migrations.catalogs import catalog
from tests.support import clusters

BOTH = (ENGINE, VAULT)


def up(span: str = "head", *lines: Line) -> str:
    written = io.StringIO()
    migrate.upgrade_sql(written, span, to=lines or BOTH)
    return written.getvalue()


def down(span: str, *lines: Line) -> str:
    written = io.StringIO()
    migrate.downgrade_sql(written, span, of=lines or BOTH)
    return written.getvalue()


NEWEST: Final = [migrate.versions(line)[-1] for line in BOTH]


def run(database: clusters.Database, script: str) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(script)


def refusal(database: clusters.Database, script: str) -> str:
    with pytest.raises(psycopg.errors.RaiseException) as refused:
        run(database, script)
    return f"{refused.value.diag.message_primary}. {refused.value.diag.message_hint}"


def at(database: clusters.Database) -> list[str | None]:
    return [state.current for state in migrate.status(database.dsn, BOTH)]


@pytest.mark.contract("D-70")
def test_scripts_go_up_and_down_and_up_again(empty: clusters.Database) -> None:
    run(empty, up())
    assert at(empty) == NEWEST
    first = catalog(empty.dsn), catalog(empty.dsn, "vault")
    run(empty, down("base"))
    assert at(empty) == [None, None]
    run(empty, up())
    assert (catalog(empty.dsn), catalog(empty.dsn, "vault")) == first


def test_a_script_works_where_the_command_has_taken_everything_down(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn, to=BOTH)
    migrate.downgrade(empty.dsn, "base", of=BOTH)
    run(empty, up())
    assert at(empty) == NEWEST
    run(empty, down("base"))
    migrate.upgrade(empty.dsn, to=BOTH)


def test_a_script_of_one_line_begins_and_ends_where_it_is_told(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn)
    migrate.upgrade(empty.dsn, "0001", to=[VAULT])
    run(empty, up("0001:head", VAULT))
    assert at(empty) == NEWEST
    run(empty, down("0001", VAULT))
    assert at(empty) == [NEWEST[0], "0001"]


def test_a_script_refuses_a_database_that_stands_elsewhere_and_names_the_one_that_fits(
    empty: clusters.Database,
) -> None:
    assert "penstock migrate down" not in refusal(empty, down("base")), "there is nothing to take down"
    migrate.upgrade(empty.dsn)
    migrate.upgrade(empty.dsn, "0001", to=[VAULT])
    before = catalog(empty.dsn), catalog(empty.dsn, "vault")
    assert f"engine is at {NEWEST[0]} already" in refusal(empty, up())
    said = refusal(empty, up("head", VAULT))
    assert "takes vault up from base, and vault is at 0001" in said
    assert f"`penstock migrate up 0001:{NEWEST[1]} --line vault --sql`" in said
    assert "`penstock migrate down 0001:base --line vault --sql`" in refusal(empty, down("base"))
    assert (catalog(empty.dsn), catalog(empty.dsn, "vault")) == before


def test_a_script_with_nothing_in_it_is_not_written() -> None:
    with pytest.raises(
        MigrationFailed, match=f"nothing down from {NEWEST[0]} to {NEWEST[0]} of engine; name both ends"
    ):
        down(NEWEST[0], ENGINE)
    with pytest.raises(MigrationFailed, match="nothing up from 0002 to 0001 of vault"):
        up("0002:0001", VAULT)
    with pytest.raises(MigrationFailed, match="vault has no version '0009'; it has base, 0001, 0002, 0003"):
        up("0009:head", VAULT)


def test_the_owner_of_a_prepared_schema_can_run_the_script(empty: clusters.Database) -> None:
    with psycopg.connect(empty.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(f"alter database {empty.name} owner to postgres")
        superuser.execute("create schema penstock authorization penstock")
    run(empty, up("head", ENGINE))
    assert migrate.status(empty.dsn)[0].up_to_date
