"""Every table, role and verb, tried for real; each denial has the owner's success as its control."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store import roles
from tests.support import clusters, upgraded
from tests.support.rights import Rights, allowed

O, W, F, P, V = roles.ORCHESTRATOR, roles.WORKER, roles.FRONTEND, roles.OPERATOR, roles.VIEWER  # noqa: E741 - columns
PAGE: Final = Path(__file__).parents[2] / "docs" / "explanation" / "threat-model.md"

# s select, i insert, u update, d delete; a capital letter: some columns only. Nobody may truncate.
MATRIX: Final[dict[str, dict[str, str]]] = {
    "alerts":               {O: "",  W: "sIU",  F: "",  P: "sIU", V: "s"},
    "api_keys":             {O: "",  W: "",     F: "",  P: "",    V: ""},
    "batch_items":          {O: "",  W: "siu",  F: "",  P: "s",   V: "s"},
    "batch_overview":       {O: "",  W: "s",    F: "",  P: "s",   V: "s"},
    "batches":              {O: "",  W: "siu",  F: "",  P: "sU",  V: "s"},
    "clock":                {O: "s", W: "s",    F: "s", P: "s",   V: "s"},
    "dead_letter_events":   {O: "",  W: "s",    F: "",  P: "s",   V: "S"},
    "dead_letter_overview": {O: "",  W: "s",    F: "",  P: "s",   V: ""},
    "dead_letters":         {O: "",  W: "s",    F: "",  P: "s",   V: "S"},
    "effect_attempts":      {O: "",  W: "sI",   F: "",  P: "s",   V: "s"},
    "effects":              {O: "",  W: "siu",  F: "",  P: "s",   V: "S"},
    "job_events":           {O: "",  W: "s",    F: "",  P: "s",   V: "s"},
    "job_stages":           {O: "",  W: "s",    F: "",  P: "s",   V: ""},
    "jobs":                 {O: "S", W: "sU",   F: "",  P: "S",   V: "S"},
    "kept_keys":            {O: "",  W: "s",    F: "",  P: "S",   V: ""},
    "lock_salt":            {O: "",  W: "",     F: "",  P: "",    V: ""},
    "operator_events":      {O: "",  W: "",     F: "",  P: "s",   V: "S"},
    "pending_policies":     {O: "",  W: "s",    F: "",  P: "s",   V: "s"},
    "prunable_effects":     {O: "",  W: "s",    F: "",  P: "s",   V: ""},
    "prunable_jobs":        {O: "",  W: "s",    F: "",  P: "s",   V: ""},
    "rates":                {O: "",  W: "s",    F: "",  P: "s",   V: "s"},
    "retention":            {O: "",  W: "s",    F: "",  P: "s",   V: "s"},
    "runs":                 {O: "",  W: "siu",  F: "",  P: "s",   V: "s"},
    "schedules":            {O: "",  W: "sIU",  F: "",  P: "SU",  V: "S"},
    "schema_version":       {O: "s", W: "s",    F: "s", P: "s",   V: "s"},
    "skips":                {O: "",  W: "sI",   F: "",  P: "s",   V: "s"},
    "spend":                {O: "",  W: "s",    F: "",  P: "s",   V: "s"},
    "stages":               {O: "",  W: "siu",  F: "",  P: "s",   V: "S"},
    "types":                {O: "s", W: "sIU",  F: "",  P: "siu", V: "s"},
    "workers":              {O: "",  W: "sIU",  F: "",  P: "s",   V: "s"},
}  # fmt: skip
VIEWS: Final = {"batch_overview", "dead_letter_overview", "job_stages", "prunable_jobs", "prunable_effects"}

_JOB: Final = {
    "job_id", "created_at", "updated_at", "run_at", "claimed_at", "lease_expires_at", "finished_at", "first_failure_at",
    "last_error_at", "claim_seq", "attempt_count", "max_attempts", "reclaim_count", "priority", "ready", "audited",
    "staged", "status", "job_type", "stage", "claimed_by", "run_id", "idempotency_key", "limit_key", "last_error_code",
    "replay_of_job_id", "superseded_by_job_id", "provider_batch_id", "suspect", "reserved_until",
}  # fmt: skip
_SCHEDULE: Final = {
    "schedule", "function", "job_type", "cron", "every", "timezone", "source", "enabled", "retired_at", "next_due_at",
    "last_due_at", "last_ran_at", "missed_count", "requested_at", "requested_by", "claimed_by", "lease_expires_at",
}  # fmt: skip
_POLICY: Final = {
    "policy", "policy_version", "stages", "max_attempts", "priority", "audited", "stale_counts_attempt", "max_reclaims",
    "replayable", "steps_required", "dispatch", "channel", "max_payload_bytes", "enqueue_role", "keep_finished",
    "keep_keys", "synced_at", "breaker_after", "breaker_cooldown", "max_running", "rate_count", "rate_period",
    "key_max_running", "key_rate_count", "key_rate_period",
}  # fmt: skip
_WORKER: Final = {
    "instance", "host", "pid", "version", "types", "concurrency", "started_at", "heartbeat_at", "stopped_at", "running",
    "rss_bytes", "notify", "poll_seconds", "process",
}  # fmt: skip

# The columns behind the capital letters.
COLUMNS: Final[dict[tuple[str, str, str], set[str]]] = {
    (O, "jobs", "select"): {
        "job_id", "job_type", "status", "idempotency_key", "created_at", "finished_at", "superseded_by_job_id",
    },
    (W, "jobs", "update"): {
        "status", "stage", "staged", "ready", "run_at", "claim_seq", "claimed_by", "claimed_at", "lease_expires_at",
        "run_id", "attempt_count", "reclaim_count", "suspect", "reserved_until",
        "finished_at", "updated_at", "first_failure_at", "last_error_at",
        "last_error_code", "last_error_message", "provider_batch_id",
    },
    (W, "alerts", "insert"): {"kind", "severity", "subject"},
    (W, "alerts", "update"): {"announced_at", "announce_tries"},
    (W, "effect_attempts", "insert"): {"effect_key", "at", "action", "outcome"},
    (W, "skips", "insert"): {"function", "at", "reason"},
    (W, "schedules", "insert"): {
        "schedule", "function", "job_type", "payload", "cron", "every", "timezone", "source", "next_due_at",
    },
    (W, "schedules", "update"): (_SCHEDULE - {"schedule", "enabled"}) | {"payload", "claim_seq"},
    (W, "types", "insert"): _POLICY | {"job_type"},
    (W, "types", "update"): _POLICY | {"paused_at", "paused_by", "pause_reason"},
    (W, "workers", "insert"): _WORKER | {"worker_id"},
    (W, "workers", "update"): _WORKER,
    (P, "jobs", "select"): _JOB | {"last_error_message"},
    (P, "kept_keys", "select"): {"idempotency_key", "job_id", "kept_until"},
    (P, "alerts", "insert"): {"kind", "severity", "subject"},
    (P, "alerts", "update"): {"acknowledged_at", "acknowledged_by", "announced_at", "announce_tries"},
    (P, "batches", "update"): {"cancel_asked_at", "next_poll_at"},
    (P, "schedules", "select"): _SCHEDULE | {"claim_seq"},
    (P, "schedules", "update"): {"enabled", "next_due_at", "requested_at", "requested_by"},
    (V, "jobs", "select"): _JOB,
    (V, "schedules", "select"): _SCHEDULE,
    (V, "stages", "select"): {"job_id", "stage", "attempts", "first_failure_at", "last_failure_at", "finished_at"},
    (V, "effects", "select"): {
        "effect_key", "kind", "token", "job_id", "claim_seq", "holds_claim", "state", "perform_count", "intended_at",
        "settled_at", "done_at", "adopted_by", "adopted_until",
    },
    (V, "dead_letters", "select"): {
        "dead_letter_id", "job_id", "last_job_id", "job_type", "stage", "error_class", "retryable",
        "reason", "attempts",
        "first_failure_at", "last_failure_at", "created_at", "state", "cause", "ticket", "replay_safe", "replay_count",
        "replay_job_id", "escalated_at", "closed_at",
    },
    (V, "dead_letter_events", "select"): {"dead_letter_id", "at", "step", "operator", "db_user"},
    (V, "operator_events", "select"): {"at", "db_user", "actor", "action", "subject"},
}  # fmt: skip

FUNCTIONS: Final[dict[str, set[str]]] = {
    O: {
        "now", "uuid7", "put_job", "put_plain", "put_jobs", "enqueue", "raise_refusal", "poke", "check_key", "lock_key",
    },
    F: {"now", "uuid7", "check_key"},
    W: {
        "now", "uuid7", "put_job", "put_plain", "put_jobs", "enqueue", "raise_refusal", "poke", "lock_key", "is_owner",
        "is_operator", "daily_cap", "note_pending", "looser_rate", "keep_stored", "claim_gated", "claim_suspect",
        "gate_room", "reap", "bury", "save_runs",
        "note_refusal", "trip_breaker", "open_breaker", "mend_breaker", "intend", "intent_held", "reopen_effect",
        "add_spend", "settle_items", "keep_keys", "prune_jobs", "prune_effects", "prune_audit", "prune_old",
    },
    P: {
        "now", "uuid7", "is_owner", "is_operator", "daily_cap", "note_pending", "cancel", "close_breaker",
        "poke", "open_payload",
        "unrecorded_openings", "lock_dead_letter", "replay", "take_step", "resolve_effect", "reopen_effect",
        "keep_keys",
        "prune_jobs", "prune_effects", "prune_audit", "prune_old", "set_retention", "check_key", "create_key",
        "list_keys", "revoke_key",
    },
    V: {"now", "uuid7"},
}  # fmt: skip
RIGHTS: Final = Rights("penstock", MATRIX, COLUMNS, VIEWS)


@pytest.fixture(params=["fresh", "upgraded"])
def template(request: pytest.FixtureRequest, shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> str:
    """The rights are the same in a database made today and in one that came from the first revisions."""
    return clusters.TEMPLATE if request.param == "fresh" else upgraded.template(shared_server, admin)


@pytest.fixture
def owner(dsn: str) -> Any:
    """The owner's connection."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def test_every_table_is_in_the_matrix(owner: psycopg.Connection[Any]) -> None:
    assert RIGHTS.tables(owner) == set(MATRIX)


@pytest.mark.contract("C-68", "R-24", "Q-48")
@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_may_do_what_the_matrix_says_and_nothing_else(
    role: str, role_dsn: Callable[[str], str], dsn: str
) -> None:
    with psycopg.connect(role_dsn(role)) as connection, psycopg.connect(dsn) as control:
        assert RIGHTS.wrong(role, connection, control) == []


@pytest.mark.contract("C-68")
@pytest.mark.parametrize(("role", "table", "verb"), list(COLUMNS))
def test_a_right_on_some_columns_is_on_these_alone(
    role: str, table: str, verb: str, role_dsn: Callable[[str], str], owner: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(role_dsn(role)) as connection:
        found = RIGHTS.columns_for(verb, table, connection, owner)
    assert found == COLUMNS[role, table, verb]


@pytest.mark.contract("C-68", "Q-48")
@pytest.mark.parametrize("role", roles.ROLES)
def test_functions_are_for_those_who_need_them(role: str, owner: psycopg.Connection[Any]) -> None:
    may, everything = RIGHTS.executable(role, owner)
    assert may == FUNCTIONS[role]
    assert may < everything


def test_the_public_has_no_right_at_all(owner: psycopg.Connection[Any]) -> None:
    assert RIGHTS.of_the_public(owner) == []


def test_the_page_shows_the_matrix_as_it_is() -> None:
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$", PAGE.read_text(), re.MULTILINE)
    shown = {table: [cell.strip().replace("\N{EN DASH}", "") for cell in cells] for table, *cells in rows}
    assert shown == {table: [rights[role] for role in (O, W, F, P, V)] for table, rights in MATRIX.items()}


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
