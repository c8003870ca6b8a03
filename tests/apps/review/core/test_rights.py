"""What each role may do with reviews, and what nobody may do to them.

Each denial has its positive control: the owner runs the same statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import asyncpg
import psycopg
import pytest

from penstock.store import roles
from tests.apps.review.core.conftest import TO, World
from tests.support.rights import Rights, allowed

O, W, F, P, V = roles.ROLES  # noqa: E741 - columns of a table

# s select, i insert, u update, d delete; a capital letter: some columns only. Nobody may truncate.
MATRIX: Final[dict[str, dict[str, str]]] = {
    "artifacts":         {O: "S",  W: "si",  F: "", P: "", V: ""},
    "creation_keys":     {O: "si", W: "",    F: "", P: "", V: ""},
    "deliveries":        {O: "S",  W: "siU", F: "", P: "S", V: ""},
    "delivery_attempts": {O: "",   W: "siU", F: "", P: "s", V: ""},
    "parts":             {O: "s",  W: "si",  F: "", P: "", V: ""},
    "questions":         {O: "",   W: "si",  F: "", P: "", V: ""},
    "recipients":        {O: "si", W: "s",   F: "", P: "", V: ""},
    "reviews":           {O: "si", W: "s",   F: "", P: "s", V: ""},
    "schema_version":    {O: "s",  W: "s",   F: "s", P: "s", V: "s"},
}  # fmt: skip
SEEN: Final = {
    "delivery_id", "review_id", "changelist_id", "recipient", "review_version", "channel", "required", "promise",
    "status", "send_count", "notification_id", "notified_at", "provider_confirmed_at", "reconciled_at",
    "last_error_code", "waived_by", "created_at",
}  # fmt: skip
# The columns behind the capital letters.
COLUMNS: Final[dict[tuple[str, str, str], set[str]]] = {
    (O, "artifacts", "select"): {"review_id", "revision", "parts", "fetched_at"},
    (O, "deliveries", "select"): SEEN,
    (P, "deliveries", "select"): SEEN | {
        "address", "token", "first_send_at", "send_started_at", "looked_up_at", "opened_by_job_id", "cleared_count",
    },
    (W, "deliveries", "update"): {
        "promise", "payload", "status", "send_count", "first_send_at", "send_started_at", "intent_id",
        "notification_id", "notified_at", "provider_confirmed_at", "reconciled_at", "last_error_code",
        "opened_by_job_id",
    },
    (W, "delivery_attempts", "update"): {"outcome"},
}  # fmt: skip
SETTLING: Final = {"note_lookup", "suspect_delivery", "redeliver", "settle_delivery"}
FUNCTIONS: Final[dict[str, set[str]]] = {
    O: {"standing"}, W: SETTLING, F: set(), P: SETTLING | {"waive_delivery", "standing"}, V: set(),
}  # fmt: skip
RIGHTS: Final = Rights("review", MATRIX, COLUMNS, set())


@pytest.fixture
def owner(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """The owner's connection."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def test_every_table_is_in_the_matrix(owner: psycopg.Connection[Any]) -> None:
    assert RIGHTS.tables(owner) == set(MATRIX)


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_may_do_what_the_matrix_says_and_nothing_else(
    role: str, role_dsn: Callable[[str], str], owner: psycopg.Connection[Any], dsn: str
) -> None:
    with psycopg.connect(role_dsn(role)) as connection, psycopg.connect(dsn) as control:
        assert RIGHTS.wrong(role, connection, control) == []
        for (who, table, verb), columns in COLUMNS.items():
            if who == role:
                assert RIGHTS.columns_for(verb, table, connection, owner) == columns
    may, _ = RIGHTS.executable(role, owner)
    assert may == FUNCTIONS[role]


def test_an_operator_a_frontend_and_a_viewer_read_no_code_no_finding_and_no_message(
    role_dsn: Callable[[str], str], dsn: str
) -> None:
    for table, column in {"artifacts": "diff", "parts": "findings", "deliveries": "payload"}.items():
        for role in (P, F, V):
            with psycopg.connect(role_dsn(role)) as connection, psycopg.connect(dsn) as control:
                assert allowed(control, RIGHTS.statement("select", table, column))
                assert not allowed(connection, RIGHTS.statement("select", table, column))


def test_the_public_has_no_right_at_all(owner: psycopg.Connection[Any]) -> None:
    assert RIGHTS.of_the_public(owner) == []


def test_functions_that_run_as_the_owner_cannot_be_led_to_other_tables(owner: psycopg.Connection[Any]) -> None:
    rows = owner.execute(
        "select oid::regprocedure::text from pg_proc where pronamespace = 'review'::regnamespace and prosecdef "
        "and not coalesce(proconfig @> array['search_path=pg_catalog, pg_temp'], false)"
    ).fetchall()
    assert rows == []


# --------------------------------------------------------------------------- the rules


async def refused(world: World, statement: str) -> str:
    """What the database says to the owner's *statement*."""
    with pytest.raises(asyncpg.PostgresError) as error:
        await world.owner.execute(statement)
    assert error.value.sqlstate == "PS001", error.value
    return str(error.value)


async def test_what_was_asked_for_fetched_and_answered_is_never_changed(world: World) -> None:
    await world.succeed(await world.create())
    assert "written once" in await refused(world, "update review.reviews set review_version = 2")
    for table in ("creation_keys", "recipients", "artifacts", "parts"):
        assert "written once" in await refused(world, f"update review.{table} set review_id = review_id")
        assert "written once" in await refused(world, f"delete from review.{table}")


async def test_nobody_is_added_to_those_who_are_told(world: World) -> None:
    made = await world.create()
    add = f"insert into review.recipients values ('{made.review.review_id}', 'late@example.org', 'smtp', 'x', true)"
    assert "has its recipients" in await refused(world, add)


async def test_a_job_of_no_review_is_refused_when_it_is_committed(world: World, role_dsn: Callable[[str], str]) -> None:
    made = await world.create()
    review_id = made.review.review_id
    orchestrator = await asyncpg.connect(role_dsn(O))
    nobody, mine = "00000000-0000-0000-0000-000000000000", f'{{"review_id": "{review_id}"}}'
    strange = ("{}", '{"review_id": null}', '{"review_id": "x"}', f'{{"review_id": "{nobody}"}}')
    for payload in (*strange, mine.replace("}", ', "more": 1}'), mine):
        with pytest.raises(asyncpg.PostgresError, match="belongs to no review"):
            await orchestrator.fetchval("select penstock.enqueue('review_processing', $1::jsonb, 'by hand')", payload)
    await orchestrator.close()
    assert await world.count("penstock.jobs") == 1


@pytest.mark.contract("C-47", "C-48")
async def test_a_version_of_a_changelist_has_one_review_and_a_review_one_job(world: World) -> None:
    made = await world.create()
    insert = "insert into review.reviews (review_id, job_id, changelist_id, review_version) values (gen_random_uuid(), "
    for values in ("gen_random_uuid(), 'shop:4f1c2aa', 1)", f"'{made.review.job_id}', 'shop:other', 1)"):
        with pytest.raises(asyncpg.UniqueViolationError):
            await world.owner.execute(insert + values)


async def test_each_side_does_its_part_and_cannot_do_the_others(world: World) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await world.worker.create_review(idempotency_key="w", changelist_id="shop:main", recipients=[TO])
    assert (await world.create()).created
    args = world.worker.type.handler("fetch").decode(
        f'{{"review_id": "{await world.owner.fetchval("select review_id from review.reviews")}"}}'
    )
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await world.orchestrator.stages.fetch(None, args)  # type: ignore[arg-type]  # it never gets to its job
