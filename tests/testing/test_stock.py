"""A database of the stock is as fresh as a clone, whatever the test before did to it."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from tests.support import clusters
from tests.support.stock import MOST_ROWS, Stock

EVERYTHING = """
select (select jsonb_agg(t) from vault.outbox_takeover t), (select jsonb_agg(v) from vault.schema_version v),
       (select count(*) from penstock.skips),
       (select jsonb_agg(s order by s.schemaname, s.sequencename) from pg_sequences s)
"""


def rows(number: int) -> str:
    """A statement that puts *number* rows in, each with the next value of a sequence."""
    return f"insert into penstock.skips (function, at, reason) select 'f', now(), 'r' from generate_series(1, {number})"


@pytest.fixture
def shelf(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[Stock]:
    """A stock of this test alone."""
    with Stock(shared_server, admin) as stock:
        yield stock


def run(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            found = connection.execute(statement)
        return found.fetchall() if found.description else []


def given_back_after(shelf: Stock, *statements: str) -> tuple[clusters.Database, clusters.Database]:
    """The database that a superuser did *statements* to, and the one that comes next."""
    first = shelf.take(clusters.TEMPLATE)
    run(first.superuser_dsn, *(statement.format(database=first.name) for statement in statements))
    shelf.give_back(first)
    return first, shelf.take(clusters.TEMPLATE)


def test_rows_go_seeds_come_back_and_sequences_begin_again(shelf: Stock) -> None:
    first = shelf.take(clusters.TEMPLATE)
    before = run(first.dsn, EVERYTHING)
    shelf.give_back(first)
    first, second = given_back_after(
        shelf,
        rows(3),
        "update vault.schema_version set version_num = '0000'",
        "delete from vault.outbox_takeover",
    )

    assert second == first
    assert run(second.dsn, EVERYTHING) == before
    shelf.give_back(second)


def test_a_clock_that_was_wound_goes_right_again(shelf: Stock) -> None:
    first, second = given_back_after(
        shelf, "create or replace function penstock.now() returns timestamptz language sql return 'epoch'::timestamptz"
    )
    assert (second, run(second.dsn, "select penstock.now() = now()")) == (first, [(True,)])
    shelf.give_back(second)
    assert shelf.take(clusters.TEMPLATE) == first


def test_rows_put_in_by_a_session_that_is_still_there_go_with_it(shelf: Stock) -> None:
    first = shelf.take(clusters.TEMPLATE)
    with psycopg.connect(first.superuser_dsn) as open_still:
        open_still.execute(rows(3))
        open_still.commit()
        open_still.execute(rows(3))
        shelf.give_back(first)
        with pytest.raises(psycopg.OperationalError):
            open_still.execute("select 1")
    second = shelf.take(clusters.TEMPLATE)

    assert (second, run(second.dsn, "select count(*) from penstock.skips")) == (first, [(0,)])
    shelf.give_back(second)


@pytest.mark.parametrize(
    "change",
    [
        "create table public.mine (n int)",
        "create temporary table mine (n int)",
        "drop index penstock.skips_at",
        "truncate penstock.jobs cascade",
        "alter table penstock.jobs disable trigger all",
        "create function public.mine() returns int language sql return 1",
        "grant execute on function penstock.uuid7() to public",
        "revoke select on penstock.jobs from penstock_operator",
        "grant create on database {database} to penstock_operator",
        "alter database {database} set penstock.mine = 'yes'",
        "alter role penstock_operator in database {database} set penstock.mine = 'yes'",
        "alter database {database} connection limit 7",
        rows(MOST_ROWS + 1),
    ],
)
def test_a_database_with_more_to_undo_than_a_few_rows_is_dropped(
    shelf: Stock, admin: psycopg.Connection[Any], change: str
) -> None:
    first, second = given_back_after(shelf, change)

    assert second != first
    assert admin.execute("select from pg_database where datname = %s", [first.name]).fetchall() == []
    shelf.give_back(second)


def test_rows_of_many_tests_add_up(shelf: Stock) -> None:
    names = set()
    for _ in range(4):
        database = shelf.take(clusters.TEMPLATE)
        names.add(database.name)
        run(database.superuser_dsn, rows(MOST_ROWS // 3))
        shelf.give_back(database)

    assert len(names) == 1
    assert shelf.take(clusters.TEMPLATE).name not in names


def test_a_test_that_ends_the_keeper_costs_the_database(shelf: Stock) -> None:
    first, second = given_back_after(
        shelf,
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'tests keeper' "
        "and datname = '{database}'",
    )

    assert second != first
    shelf.give_back(second)
