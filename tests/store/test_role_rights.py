"""Every table, role and verb, tried for real; each denial has the owner's success as its control."""

from collections.abc import Callable
from typing import Any, Final

import psycopg
import pytest

from penstock.store import roles
from tests.support.rights import Rights, allowed

O, W, F, P = roles.ORCHESTRATOR, roles.WORKER, roles.FRONTEND, roles.OPERATOR  # noqa: E741 - columns of a table

# s select, i insert, u update, d delete; a capital letter: some columns only. Nobody may truncate.
MATRIX: Final[dict[str, dict[str, str]]] = {
    "alerts":               {O: "",  W: "siu",  F: "",  P: "siU"},
    "api_keys":             {O: "",  W: "",     F: "",  P: ""},
    "clock":                {O: "s", W: "s",    F: "s", P: "s"},
    "dead_letter_events":   {O: "",  W: "si",   F: "",  P: "si"},
    "dead_letter_overview": {O: "",  W: "s",    F: "",  P: "s"},
    "batch_items":          {O: "",  W: "siu",  F: "",  P: "s"},
    "batch_overview":       {O: "",  W: "s",    F: "",  P: "s"},
    "batches":              {O: "",  W: "siu",  F: "",  P: "sU"},
    "dead_letters":         {O: "",  W: "siu",  F: "",  P: "su"},
    "effect_attempts":      {O: "",  W: "si",   F: "",  P: "s"},
    "effects":              {O: "",  W: "siu",  F: "",  P: "s"},
    "job_events":           {O: "",  W: "s",    F: "",  P: "s"},
    "job_stages":           {O: "",  W: "s",    F: "",  P: "s"},
    "jobs":                 {O: "S", W: "sU",   F: "",  P: "sIU"},
    "kept_keys":            {O: "",  W: "s",    F: "",  P: "s"},
    "prunable_effects":     {O: "",  W: "s",    F: "",  P: "s"},
    "prunable_jobs":        {O: "",  W: "s",    F: "",  P: "s"},
    "rates":                {O: "",  W: "siud", F: "",  P: "s"},
    "runs":                 {O: "",  W: "siu",  F: "",  P: "s"},
    "schedules":            {O: "",  W: "siu",  F: "",  P: "sU"},
    "schema_version":       {O: "s", W: "s",    F: "s", P: "s"},
    "skips":                {O: "",  W: "si",   F: "",  P: "s"},
    "spend":                {O: "",  W: "siu",  F: "",  P: "s"},
    "stages":               {O: "",  W: "siu",  F: "",  P: "si"},
    "types":                {O: "s", W: "siu",  F: "",  P: "sU"},
    "workers":              {O: "",  W: "siu",  F: "",  P: "s"},
}  # fmt: skip
VIEWS: Final = {"batch_overview", "dead_letter_overview", "job_stages", "prunable_jobs", "prunable_effects"}

# The columns behind the capital letters.
COLUMNS: Final[dict[tuple[str, str, str], set[str]]] = {
    (O, "jobs", "select"): {
        "job_id", "job_type", "status", "idempotency_key", "created_at", "finished_at", "superseded_by_job_id",
    },
    (W, "jobs", "update"): {
        "status", "stage", "staged", "ready", "run_at", "claim_seq", "claimed_by", "claimed_at", "lease_expires_at",
        "run_id", "attempt_count", "reclaim_count", "finished_at", "updated_at", "first_failure_at", "last_error_at",
        "last_error_code", "last_error_message", "provider_batch_id",
    },
    (P, "jobs", "update"): {"superseded_by_job_id", "updated_at"},
    (P, "jobs", "insert"): {
        "job_id", "created_at", "updated_at", "run_at", "ready", "priority", "max_attempts", "audited", "staged",
        "job_type", "stage", "idempotency_key", "limit_key", "replay_of_job_id", "payload",
    },
    (P, "alerts", "update"): {"acknowledged_at", "acknowledged_by", "announced_at", "announce_tries"},
    (P, "batches", "update"): {"cancel_asked_at", "next_poll_at"},
    (P, "schedules", "update"): {"enabled", "next_due_at", "requested_at", "requested_by"},
    (P, "types", "update"): {
        "paused_at", "paused_by", "pause_reason", "breaker", "breaker_failures", "breaker_code", "breaker_opened_at",
        "breaker_probe_at", "max_running", "rate_count", "rate_period", "key_max_running", "key_rate_count",
        "key_rate_period",
    },
}  # fmt: skip

FUNCTIONS: Final[dict[str, set[str]]] = {
    O: {"now", "uuid7", "put_job", "put_plain", "put_jobs", "enqueue", "raise_refusal", "poke", "check_key"},
    F: {"now", "uuid7", "check_key"},
    P: {
        "now", "uuid7", "cancel", "close_breaker", "poke", "resolve_effect", "reopen_effect", "keep_keys", "prune_jobs",
        "prune_effects", "prune_audit", "prune_old", "check_key", "create_key", "list_keys", "revoke_key",
    },
}  # fmt: skip
NOT_FOR_WORKERS: Final = {
    "cancel", "resolve_effect", "apply_grants", "clear_grants", "check_key", "create_key", "list_keys", "revoke_key",
    "import_jobs", "remove_jobs",
}  # fmt: skip
RIGHTS: Final = Rights("penstock", MATRIX, COLUMNS, VIEWS)


@pytest.fixture
def owner(dsn: str) -> Any:
    """The owner's connection."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def test_every_table_is_in_the_matrix(owner: psycopg.Connection[Any]) -> None:
    assert RIGHTS.tables(owner) == set(MATRIX)


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_may_do_what_the_matrix_says_and_nothing_else(
    role: str, role_dsn: Callable[[str], str], dsn: str
) -> None:
    with psycopg.connect(role_dsn(role)) as connection, psycopg.connect(dsn) as control:
        assert RIGHTS.wrong(role, connection, control) == []


@pytest.mark.parametrize(("role", "table", "verb"), list(COLUMNS))
def test_a_right_on_some_columns_is_on_these_alone(
    role: str, table: str, verb: str, role_dsn: Callable[[str], str], owner: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(role_dsn(role)) as connection:
        found = RIGHTS.columns_for(verb, table, connection, owner)
    assert found == COLUMNS[role, table, verb]


@pytest.mark.parametrize("role", roles.ROLES)
def test_functions_are_for_those_who_need_them(role: str, owner: psycopg.Connection[Any]) -> None:
    may, everything = RIGHTS.executable(role, owner)
    expected = everything - NOT_FOR_WORKERS if role == W else FUNCTIONS[role]
    assert may == expected


def test_the_public_has_no_right_at_all(owner: psycopg.Connection[Any]) -> None:
    assert RIGHTS.of_the_public(owner) == []


def test_functions_that_run_as_the_owner_cannot_be_led_to_other_tables(owner: psycopg.Connection[Any]) -> None:
    rows = owner.execute(
        "select oid::regprocedure::text from pg_proc where pronamespace = 'penstock'::regnamespace and prosecdef "
        "and not coalesce(proconfig @> array['search_path=pg_catalog'], false)"
    ).fetchall()
    assert rows == [], "each names its search_path, or a caller's own table could take the place of ours"


async def test_applying_the_grants_again_takes_away_what_was_given_by_hand(
    dsn: str, role_dsn: Callable[[str], str], owner: psycopg.Connection[Any]
) -> None:
    owner.execute(f"grant delete, truncate on penstock.jobs to {W}")
    owner.execute(f"grant update (payload) on penstock.jobs to {W}")
    owner.execute(f"revoke select on penstock.types from {W}")
    with psycopg.connect(role_dsn(W)) as worker:
        assert allowed(worker, "delete from penstock.jobs where false")
        assert await roles.apply_grants(dsn) == sorted(roles.ROLES)
        assert not allowed(worker, "delete from penstock.jobs where false")
        assert not allowed(worker, "update penstock.jobs set payload = null where false")
        assert allowed(worker, "select job_type from penstock.types limit 0")
