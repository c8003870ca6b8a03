"""The database: what holds for hand-typed SQL too."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import SCHEMA, WALLS, Guard

MOVES: Final = "tests/store/test_state_machine.py"
AUDIT: Final = "tests/engine/audit/test_audit.py"
ITEMS: Final = "tests/engine/batches/test_clauses_items.py"
STEPS: Final = "tests/engine/dead_letters/test_steps.py"

GUARDS: Final = (
    Guard(
        "trigger on illegal moves",
        f"{WALLS}/02_moves.sql",
        "for each row\n    when (not (",
        "for each row\n    when (false and not (",
        (f"{MOVES}::test_the_database_allows_exactly_the_moves_of_the_contract",),
    ),
    Guard(
        "trigger on a falling fence",
        f"{WALLS}/02_moves.sql",
        "or new.claim_seq < old.claim_seq",
        "",
        (f"{MOVES}::test_the_fence_rises_with_every_claim_and_never_falls",),
    ),
    Guard(
        "trigger on another payload",
        f"{SCHEMA}/02_jobs.sql",
        "when (new.payload is distinct from old.payload)",
        "when (false)",
        (f"{ITEMS}::test_the_database_refuses_another_route_once_a_job_is_there",),
    ),
    Guard(
        "trigger on new jobs",
        f"{SCHEMA}/02_jobs.sql",
        "when (new.status <> 'queued' or new.claim_seq <> 0)",
        "when (false)",
        (f"{MOVES}::test_a_new_job_begins_queued_and_unclaimed",),
    ),
    Guard(
        "trigger on deleting a job that has not ended",
        f"{SCHEMA}/02_jobs.sql",
        "when (old.status not in ('completed', 'failed', 'canceled'))",
        "when (false)",
        (f"{MOVES}::test_a_job_that_has_not_ended_cannot_be_deleted",),
    ),
    Guard(
        "the audit is append-only",
        f"{SCHEMA}/03_records.sql",
        "job_events_append_only before update or delete on penstock.job_events for each row\n",
        "job_events_append_only before update or delete on penstock.job_events for each row when (false)\n",
        (f"{AUDIT}::test_the_audit_cannot_be_rewritten_by_anybody",),
    ),
    Guard(
        "every move leaves its row",
        f"{SCHEMA}/03_records.sql",
        "when (new.audited and (old.status <> new.status or old.stage <> new.stage))",
        "when (false)",
        (f"{AUDIT}::test_a_move_made_by_hand_typed_sql_leaves_its_row_too",),
    ),
    Guard(
        "no step without its evidence",
        f"{SCHEMA}/03_records.sql",
        "check (state not in ('triaged', 'remediated', 'validated') or cause is not null)",
        "check (true)",
        (f"{STEPS}::test_hand_typed_sql_cannot_skip_the_evidence",),
    ),
    Guard(
        "a login that no rule binds is refused",
        "src/penstock/store/logins.py",
        "if through is not None:",
        "if through is None:",
        ("tests/engine/runs/test_dispatch.py::test_a_login_that_no_rule_binds_is_refused",),
    ),
)
