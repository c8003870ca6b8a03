"""Walls of the applications: locks, redeliveries, traces, and what the fifth role is not given."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import SQL, WALLS, Guard

REVIEW: Final = "src/penstock/apps/review"
REWRITE: Final = "src/penstock/apps/rewrite"
REVIEW_UP: Final = f"{REVIEW}/migrations/sql/0002_walls/up.sql"
REWRITE_UP: Final = f"{REWRITE}/migrations/sql/0002_walls/up.sql"
STRAYS: Final = "tests/apps/review/core/test_walls.py"
UNITS: Final = "tests/apps/rewrite/schema/test_locks.py::test_a_login_that_knows_both_ids_of_a_unit_cannot_hold_it_up"
TAKING: Final = "tests/apps/rewrite/orchestrator/test_taking.py"
NAMES: Final = "tests/cli/test_worker_refusals.py::test_the_name_of_a_dead_worker_of_another_login"
TRACES: Final = (
    "tests/apps/rewrite/sealing/test_erasure.py"
    "::test_renewed_keys_and_erased_homes_leave_a_trace_of_the_login_that_did_it"
)

GUARDS: Final = (
    Guard(
        "a redelivery is made only where one is due",
        REVIEW_UP,
        "where d.review_id = id and d.status = 'pending' and d.cleared_count > 0",
        "where d.review_id = id or d.status = 'pending' and d.cleared_count > 0",
        (f"{STRAYS}::test_a_guessed_key_of_a_redelivery_makes_nothing",),
    ),
    Guard(
        "a redelivery has the number of what was cleared",
        REVIEW_UP,
        "and new.idempotency_key = 'review_processing:' || id || '#redeliver-' || (",
        "and starts_with(new.idempotency_key, 'review_processing:' || id || '#redeliver-') and 0 <= (",
        (f"{STRAYS}::test_a_guessed_key_of_a_redelivery_makes_nothing",),
    ),
    Guard(
        "salt in the lock of a creation",
        f"{REVIEW}/sql/reviews/lock.sql",
        "penstock.lock_key('review:' || $1::text)",
        "hashtextextended('review:' || $1::text, 0)",
        (f"{STRAYS}::test_a_lock_that_another_login_can_work_out_holds_no_creation_up",),
    ),
    Guard(
        "salt in the lock of a unit",
        REWRITE_UP,
        "select penstock.lock_key('rewrite unit:' || p_rewrite_request_id::text || ':' || p_recipient_user_id::text)",
        "select hashtextextended(p_rewrite_request_id::text || ':' || p_recipient_user_id::text, 0)",
        (UNITS,),
    ),
    Guard(
        "salt in the lock of a claim's unit",
        REWRITE_UP,
        "lock bigint := penstock.lock_key('rewrite unit:'\n"
        "        || coalesce(substr(new.idempotency_key, length('complaint_rewrite:') + 1), new.job_id::text));",
        "lock bigint := hashtextextended("
        "coalesce(substr(new.idempotency_key, length('complaint_rewrite:') + 1), new.job_id::text), 0);",
        (UNITS,),
    ),
    Guard(
        "salt in the lock of a request's key",
        f"{REWRITE}/sql/requests/lock_key.sql",
        "penstock.lock_key(concat_ws(':', 'rewrite_requests', $1::uuid, $2::uuid, $3::text))",
        "hashtextextended(concat_ws(':', 'rewrite_requests', $1::uuid, $2::uuid, $3::text), 0)",
        (f"{TAKING}::test_a_login_that_knows_sender_and_key_cannot_hold_the_call_up",),
    ),
    Guard(
        "a renewed key leaves a trace",
        REWRITE_UP,
        "perform penstock.note_act('rewrap', session_user, jsonb_build_object('home_id', p_home, 'key_id', p_key_id));",
        "null;",
        (TRACES,),
    ),
    Guard(
        "an erased home leaves a trace",
        REWRITE_UP,
        "perform penstock.note_act('erase_home', session_user, jsonb_build_object('home_id', p_home));",
        "null;",
        (TRACES,),
    ),
    Guard(
        "a viewer is given nothing by an application",
        f"{WALLS}/08_grants.sql",
        "when p_schema = 'penstock' then found_roles else",
        "when true then found_roles else",
        (
            "tests/apps/rewrite/isolation/test_grants.py::test_functions_are_for_those_who_need_them",
            "tests/apps/vault/items/test_rights.py::test_functions_of_items_are_for_those_who_need_them",
        ),
    ),
    Guard(
        "what waits for an operator is named, limits too",
        f"{SQL}/types/pending.sql",
        "from unnest(p.held) as path order by 1",
        "from unnest(p.held) as path where not starts_with(path, 'limits,') order by 1",
        ("tests/cli/test_types.py::test_what_a_sync_would_loosen_waits_for_an_operators_login",),
    ),
    Guard(
        "a name of another login is waited for",
        f"{SQL}/workers/register.sql",
        "or (w.instance = $12 and coalesce(w.db_user, session_user) = session_user)",
        "or w.instance = $12",
        (f"{NAMES}_is_taken_once_it_has_been_silent_for_a_minute",),
    ),
    Guard(
        "types are synced as an operator",
        "src/penstock/cli/types.py",
        "applications.login(found, OPERATOR)",
        'applications.login(found, "penstock_worker")',
        ("tests/cli/test_embedded.py::test_on_the_embedded_server_types_are_synced_by_an_operators_login",),
    ),
    Guard(
        "a payload is shown to who says why",
        "src/penstock/cli/jobs.py",
        'if payload and not (reason or "").strip():',
        "if payload and reason is None:",
        ("tests/cli/test_jobs.py::test_one_job_is_shown_whole_but_its_payload_only_to_who_says_why",),
    ),
)
