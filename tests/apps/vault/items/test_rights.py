"""What each role may do with items: column by column, row by row. Each denial has the owner as its control."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest

from penstock.store import roles
from tests.apps.vault.conftest import World
from tests.support.rights import Rights, allowed

O, W, F, P, V = roles.ROLES  # noqa: E741 - columns of a table

MATRIX: Final = {
    "items": {O: "sIU", W: "SU", F: "", P: "", V: ""},
    "schema_version": dict.fromkeys(roles.ROLES, "s"),
}
COLUMNS: Final = {
    (O, "items", "insert"): {"id", "owner_id", "kind", "content"},
    (O, "items", "update"): {"status", "failure_code", "enrichment_round"},
    (W, "items", "select"): {"id", "kind", "content", "status", "enrichment_round"},
    (W, "items", "update"): {"status", "title", "enrichment"},
}
# What an application of this line may call; the functions of the take-over are in its own matrix.
FUNCTIONS: Final = {
    "current_owner": {O, W, F, P},
    "round_of": set[str](),
    "item_of": set[str](),
    "apply_grants": set[str](),
}
RIGHTS: Final = Rights("vault", MATRIX, COLUMNS, set())
RoleDsn = Callable[[str], str]
Owner = psycopg.Connection[Any]


@pytest.fixture
def owner(dsn: str) -> Iterator[Owner]:
    """The owner's connection."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_may_do_with_items_what_the_matrix_says_and_nothing_else(role: str, role_dsn: RoleDsn, dsn: str) -> None:
    with psycopg.connect(role_dsn(role)) as connection, psycopg.connect(dsn) as control:
        assert RIGHTS.wrong(role, connection, control) == []


@pytest.mark.parametrize(("role", "table", "verb"), list(COLUMNS))
def test_a_right_on_some_columns_is_on_these_alone(
    role: str, table: str, verb: str, role_dsn: RoleDsn, owner: Owner
) -> None:
    with psycopg.connect(role_dsn(role)) as connection:
        assert RIGHTS.columns_for(verb, table, connection, owner) == COLUMNS[role, table, verb]


@pytest.mark.parametrize("role", roles.ROLES)
def test_functions_of_items_are_for_those_who_need_them(role: str, owner: Owner) -> None:
    may, there = RIGHTS.executable(role, owner)
    assert set(FUNCTIONS) <= there
    assert {name for name in FUNCTIONS if name in may} == {name for name, who in FUNCTIONS.items() if role in who}


def test_the_public_has_no_right_on_items(owner: Owner) -> None:
    assert "items" not in RIGHTS.of_the_public(owner)
    assert not [name for name in RIGHTS.of_the_public(owner) if "current_owner" in name or "item_of" in name]


def test_functions_that_run_as_the_owner_cannot_be_led_to_other_tables(owner: Owner) -> None:
    rows = owner.execute(
        "select proname from pg_proc where pronamespace = 'vault'::regnamespace and prosecdef "
        "and not coalesce(proconfig @> array['search_path=pg_catalog, pg_temp'], false)"
    ).fetchall()
    assert rows == []


def test_rights_can_be_given_again_and_the_policy_of_the_worker_stays_one(owner: Owner) -> None:
    for _ in range(2):
        owner.execute("select vault.apply_grants()")
    found = owner.execute(
        "select policyname, roles::text from pg_policies where tablename = 'items' order by 1"
    ).fetchall()
    assert found == [("items_of_the_worker", "{penstock_worker}"), ("items_of_their_owner", "{public}")]


async def test_a_person_sees_the_rows_of_their_owner_and_no_others(world: World, role_dsn: RoleDsn) -> None:
    mine, theirs = await world.save(), await world.people.create_item(owner_id=uuid4(), content="Not yours.")
    with psycopg.connect(role_dsn(O)) as people:
        assert _seen(people, None) == set()
        assert _seen(people, world.person) == {mine.id}
        assert _seen(people, theirs.owner_id) == {theirs.id}
        assert _seen(people, uuid4()) == set()
    assert await world.counted("vault.items") == 2, "the control: both are there"


async def test_a_person_cannot_move_or_save_for_somebody_else(world: World, role_dsn: RoleDsn) -> None:
    item = await world.save()
    with psycopg.connect(role_dsn(O), autocommit=True) as people:
        people.execute("select set_config('penstock.owner_id', %s, false)", [str(uuid4())])
        assert people.execute("update vault.items set status = 'DISCARDED'").rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            people.execute(
                "insert into vault.items (id, owner_id, kind, content) values (gen_random_uuid(), %s, 'note', 'x')",
                [world.person],
            )
        people.execute("select set_config('penstock.owner_id', %s, false)", [str(world.person)])
        assert people.execute("update vault.items set status = 'DISCARDED'").rowcount == 1
    assert await world.status(item) == "DISCARDED"


async def test_a_worker_sees_the_text_of_every_item_and_nobody_s_name(world: World, role_dsn: RoleDsn) -> None:
    await world.save()
    await world.people.create_item(owner_id=uuid4(), content="Somebody else's.")
    with psycopg.connect(role_dsn(W)) as worker:
        assert len(worker.execute("select content from vault.items").fetchall()) == 2
        assert not allowed(worker, "select owner_id from vault.items")
        assert not allowed(worker, "select * from vault.items")


def _seen(connection: psycopg.Connection[Any], owner_id: UUID | None) -> set[UUID]:
    connection.execute("select set_config('penstock.owner_id', %s, true)", ["" if owner_id is None else str(owner_id)])
    rows = connection.execute("select id from vault.items").fetchall()
    connection.rollback()
    return {row[0] for row in rows}
