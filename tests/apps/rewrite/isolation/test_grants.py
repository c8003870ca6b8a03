"""What each role may do with the application: table by table, column by column, function by function.

Each denial has its positive control: the owner runs the same statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import psycopg
import pytest

from penstock.store import roles
from tests.support.rights import Rights, allowed

O, W, F, P, V = roles.ROLES  # noqa: E741 - columns of a table

# s select, i insert, u update, d delete; a capital letter: some columns only. Nobody may truncate.
MATRIX: Final[dict[str, dict[str, str]]] = {
    "audit":                          {O: "",    W: "",   F: "",  P: "s", V: ""},
    "evaluation_failures":            {O: "",    W: "si", F: "",  P: "s", V: ""},
    "home_keys":                      {O: "si",  W: "s",  F: "",  P: "S", V: ""},
    "home_members":                   {O: "sid", W: "",   F: "",  P: "", V: ""},
    "homes":                          {O: "si",  W: "",   F: "",  P: "s", V: ""},
    "job_record":                     {O: "",    W: "",   F: "",  P: "s", V: ""},
    "preferences":                    {O: "siUd", W: "",  F: "",  P: "", V: ""},
    "recipient_preference_snapshots": {O: "si",  W: "S",  F: "",  P: "", V: ""},
    "recipient_snapshot_members":     {O: "si",  W: "",   F: "",  P: "s", V: ""},
    "recipient_snapshots":            {O: "si",  W: "",   F: "",  P: "s", V: ""},
    "rewrite_jobs":                   {O: "si",  W: "s",  F: "",  P: "s", V: ""},
    "rewrite_outputs":                {O: "s",   W: "si", F: "",  P: "S", V: ""},
    "rewrite_requests":               {O: "siU", W: "SU", F: "S", P: "S", V: ""},
    "schema_version":                 {O: "s",   W: "s",  F: "s", P: "s", V: "s"},
    "status_public":                  {O: "s",   W: "",   F: "s", P: "s", V: ""},
    "users":                          {O: "siU", W: "",   F: "",  P: "", V: ""},
}  # fmt: skip
VIEWS: Final = {"audit", "job_record", "status_public"}
SEALED: Final = {
    "home_keys": "wrapped_key", "preferences": "blocked_terms", "recipient_preference_snapshots": "blocked_terms",
    "rewrite_outputs": "rewrite_response", "rewrite_requests": "rewrite_request",
}  # fmt: skip
DECIDED: Final = {
    "rewrite_request_id", "home_id", "sender_user_id", "recipient_user_id", "recipient_snapshot_id",
    "recipient_preference_snapshot_id", "surface", "rewrite_strength", "source_locale", "target_locale", "lane",
    "classifier_result", "status", "failure_code", "created_at", "status_changed_at", "rewrite_completed_at",
}  # fmt: skip
# The columns behind the capital letters.
COLUMNS: Final[dict[tuple[str, str, str], set[str]]] = {
    (O, "rewrite_requests", "update"): {"status", "failure_code", "sender_reveal_at"},
    (O, "preferences", "update"): {"tone", "blocked_terms", "updated_at"},
    (O, "users", "update"): {"locale_raw"},
    (W, "rewrite_requests", "select"): DECIDED | {"rewrite_request"},
    (W, "rewrite_requests", "update"): {"status", "rewrite_completed_at"},
    (W, "recipient_preference_snapshots", "select"): {
        "recipient_preference_snapshot_id", "home_id", "user_id", "tone", "blocked_terms", "created_at",
    },
    (F, "rewrite_requests", "select"): {"rewrite_request_id", "status", "rewrite_completed_at", "failure_code"},
    (P, "rewrite_requests", "select"): DECIDED | {"source_locale_raw", "target_locale_raw", "sender_reveal_at"},
    (P, "rewrite_outputs", "select"): {
        "rewrite_request_id", "recipient_user_id", "home_id", "job_id", "output_locale", "eval_version",
        "lexicon_version", "provider_item_completed_at", "created_at",
    },
    (P, "home_keys", "select"): {"home_id", "key_id", "created_at", "rewrapped_at"},
}  # fmt: skip
FUNCTIONS: Final[dict[str, set[str]]] = {
    O: {"current_home", "is_plain", "status_changes", "report_unavailable"},
    W: {"current_home", "is_plain", "unit_lock"},
    F: {"current_home", "status_changes"},
    P: {
        "current_home", "cost_by_pair", "failures_by_pair", "eval_regressions", "incidents", "key_usage",
        "keys_to_rewrap", "rewrap", "forget_home", "cancel_open_jobs", "erase_files",
    },
    V: set(),
}  # fmt: skip
RIGHTS: Final = Rights("rewrite", MATRIX, COLUMNS, VIEWS)


@pytest.fixture
def owner(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """The owner's connection."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def test_every_table_is_in_the_matrix(owner: psycopg.Connection[Any]) -> None:
    assert RIGHTS.tables(owner) == set(MATRIX)


@pytest.mark.contract("L-18", "A-84", "L-68")
@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_may_do_what_the_matrix_says_and_nothing_else(
    role: str, role_dsn: Callable[[str], str], dsn: str
) -> None:
    with psycopg.connect(role_dsn(role)) as connection, psycopg.connect(dsn) as control:
        assert RIGHTS.wrong(role, connection, control) == []


@pytest.mark.contract("A-69", "L-60", "L-22")
@pytest.mark.parametrize(("role", "table", "verb"), list(COLUMNS))
def test_a_right_on_some_columns_is_on_these_alone(
    role: str, table: str, verb: str, role_dsn: Callable[[str], str], owner: psycopg.Connection[Any]
) -> None:
    """The time of the reveal and the raw locales are not among the worker's."""
    with psycopg.connect(role_dsn(role)) as connection:
        found = RIGHTS.columns_for(verb, table, connection, owner)
    assert found == COLUMNS[role, table, verb]


@pytest.mark.parametrize(("table", "column"), list(SEALED.items()))
@pytest.mark.parametrize("role", [P, F, V])
def test_an_operator_a_frontend_and_a_viewer_read_nothing_that_is_sealed(
    role: str, table: str, column: str, role_dsn: Callable[[str], str], dsn: str
) -> None:
    with psycopg.connect(role_dsn(role)) as connection, psycopg.connect(dsn) as control:
        assert allowed(control, RIGHTS.statement("select", table, column))
        assert not allowed(connection, RIGHTS.statement("select", table, column))


@pytest.mark.contract("L-17", "L-69", "A-72")
@pytest.mark.parametrize("table", ["preferences", "home_members", "users", "homes", "recipient_snapshot_members"])
def test_a_worker_cannot_look_at_people_or_at_what_they_wish_today(table: str, role_dsn: Callable[[str], str]) -> None:
    with psycopg.connect(role_dsn(W)) as worker, psycopg.connect(role_dsn(O)) as control:
        assert allowed(control, f"select from rewrite.{table} limit 0")
        assert not allowed(worker, f"select from rewrite.{table} limit 0")


@pytest.mark.parametrize("role", roles.ROLES)
def test_functions_are_for_those_who_need_them(role: str, owner: psycopg.Connection[Any]) -> None:
    may, _ = RIGHTS.executable(role, owner)
    assert may == FUNCTIONS[role]


def test_the_public_has_no_right_at_all(owner: psycopg.Connection[Any]) -> None:
    assert RIGHTS.of_the_public(owner) == []


def test_functions_that_run_as_the_owner_cannot_be_led_to_other_tables(owner: psycopg.Connection[Any]) -> None:
    rows = owner.execute(
        "select oid::regprocedure::text from pg_proc where pronamespace = 'rewrite'::regnamespace and prosecdef "
        "and not coalesce(proconfig @> array['search_path=pg_catalog, pg_temp'], false)"
    ).fetchall()
    assert rows == [], "each names its search_path, or a caller's own table could take the place of ours"
