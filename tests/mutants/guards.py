"""The guards: what keeps the promises, each with the tests that must miss it.

A row says which text of which file is the guard, what stands there without
it, and the narrowest tests that fail then. A new guard is a new row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SQL: Final = "src/penstock/store/sql"
SCHEMA: Final = "src/penstock/store/migrations/sql/0001_engine"
ENGINE: Final = "src/penstock/engine"
CONTRACT: Final = "src/penstock/contract"

CLAIMS: Final = "tests/engine/worker/test_claims.py"
LEASES: Final = "tests/engine/worker/test_leases.py"
DISPATCH: Final = "tests/engine/worker/test_dispatch.py"
MOVES: Final = "tests/store/test_state_machine.py"
AUDIT: Final = "tests/engine/audit/test_audit.py"
STEPS: Final = "tests/engine/dead_letters/test_steps.py"
RACES: Final = "tests/model/test_interleavings.py"
STALE: Final = f"{CLAIMS}::test_no_write_succeeds_without_the_exact_claim[fence]"
STRANGER: Final = f"{CLAIMS}::test_no_write_succeeds_without_the_exact_claim[worker]"


@dataclass(frozen=True)
class Guard:
    """One guard. *text* stands exactly once in *file*; with *without* in its place one of *tests* must fail."""

    name: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]


FENCES: Final = (
    Guard(
        "fence of complete",
        f"{SQL}/claims/complete.sql",
        "(job.job_id, job.claim_seq) in (select pair.job_id, pair.claim_seq",
        "(job.job_id, 1) in (select pair.job_id, 1",
        (STALE,),
    ),
    Guard(
        "fence of renew",
        f"{SQL}/claims/renew.sql",
        " and held.claim_seq = job.claim_seq",
        "",
        (STALE,),
    ),
    Guard(
        "fence of requeue",
        f"{SQL}/claims/requeue.sql",
        " and v.claim_seq = job.claim_seq",
        "",
        (STALE,),
    ),
    Guard(
        "fence of fail",
        f"{SQL}/claims/fail.sql",
        " and v.claim_seq = job.claim_seq",
        "",
        (STALE,),
    ),
    Guard(
        "fence of finish",
        f"{SQL}/claims/finish.sql",
        "job.claim_seq = $2",
        "$2::bigint is not null",
        (STALE,),
    ),
    Guard(
        "fence of advance",
        f"{SQL}/claims/advance.sql",
        "job.claim_seq = $2",
        "$2::bigint is not null",
        (STALE,),
    ),
    Guard(
        "fence of a handler's cancel",
        f"{SQL}/claims/cancel.sql",
        "job.claim_seq = $2",
        "$2::bigint is not null",
        (STALE,),
    ),
    Guard(
        "owner's name in complete",
        f"{SQL}/claims/complete.sql",
        "and job.claimed_by = $3",
        "and $3::text is not null",
        (STRANGER,),
    ),
    Guard(
        "owner's name in renew",
        f"{SQL}/claims/renew.sql",
        "and job.claimed_by = $3",
        "and $3::text is not null",
        (STRANGER,),
    ),
    Guard(
        "a claim raises the fence",
        f"{SQL}/claims/take.sql",
        "claim_seq = job.claim_seq + 1",
        "claim_seq = greatest(job.claim_seq, 1)",
        (f"{CLAIMS}::test_in_a_set_only_the_stale_claim_is_dropped",),
    ),
)

CLAIMING: Final = (
    Guard(
        "claims skip locked rows",
        f"{SQL}/claims/take.sql",
        "limit $2\n                 for update skip locked) as due",
        "limit $2) as due",
        (f"{RACES}::test_two_operations_meet_in_every_order[claim]", f"{RACES}::test_two_scripts_meet_in_every_order"),
    ),
    Guard(
        "only ready jobs are claimed",
        f"{SQL}/claims/take.sql",
        "j.status = 'queued' and j.ready",
        "j.status = 'queued'",
        (f"{CLAIMS}::test_only_queued_jobs_that_are_due_can_be_claimed",),
    ),
    Guard(
        "only due jobs become ready",
        f"{SQL}/claims/promote.sql",
        "and j.run_at <= penstock.now()",
        "",
        (f"{CLAIMS}::test_a_job_of_the_future_is_claimed_once_it_has_fallen_due",),
    ),
    Guard(
        "gated types are left to their gate",
        f"{SQL}/claims/take.sql",
        "and not type.gated",
        "",
        ("tests/model/test_state_machine.py",),
    ),
    Guard(
        "cap of a run",
        f"{ENGINE}/runs.py",
        "return self.caps.jobs - self.claimed",
        "return 10**6",
        (f"{DISPATCH}::test_a_drain_takes_its_cap_and_no_more",),
    ),
    Guard(
        "time of a run",
        f"{ENGINE}/runs.py",
        "if now - self.started_mono >= self.caps.runtime.total_seconds():",
        "if now < self.started_mono:",
        ("tests/engine/runs/test_caps.py::test_no_job_starts_after_the_time_of_the_run",),
    ),
    Guard(
        "marks are dropped",
        f"{ENGINE}/marks.py",
        '"""Start from the beginning next time."""\n        self._marks.clear()',
        '"""Start from the beginning next time."""\n        self._born = 10.0**12',
        (f"{CLAIMS}::test_ten_thousand_later_jobs_do_not_hide_one_that_commits_late",),
    ),
)

LEASING: Final = (
    Guard(
        "the reaper looks at the lease",
        f"{SCHEMA}/05_claims.sql",
        "and j.lease_expires_at < at",
        "",
        (f"{LEASES}::test_an_expired_claim_goes_back_and_one_that_is_a_second_younger_stays",),
    ),
    Guard(
        "the reaper locks before it writes",
        f"{SCHEMA}/05_claims.sql",
        "           for update of j skip locked\n",
        "",
        (
            f"{RACES}::test_two_operations_meet_in_every_order[complete]",
            f"{RACES}::test_two_operations_meet_in_every_order",
        ),
    ),
    Guard(
        "cap of reclaims",
        f"{SCHEMA}/05_claims.sql",
        "job.reclaim_count >= job.max_reclaims",
        "false",
        (f"{LEASES}::test_the_sixth_expiry_of_such_a_type_ends_the_job_as_lease_expired",),
    ),
    Guard(
        "an expiry spends an attempt",
        f"{SCHEMA}/05_claims.sql",
        "attempt_count = j.attempt_count + case when job.counts then 1 else 0 end",
        "attempt_count = j.attempt_count",
        (f"{LEASES}::test_an_expiry_that_spends_the_last_attempt_fails_the_job",),
    ),
    Guard(
        "the heartbeat has a thread of its own",
        f"{ENGINE}/heartbeat.py",
        "        self._thread.start()",
        "        async def in_the_loop() -> None:\n"
        "            while not self._stopping:\n"
        "                await asyncio.sleep(await self._round())\n\n"
        "        self._task = asyncio.get_running_loop().create_task(in_the_loop())\n"
        "        self._thread = threading.Thread(target=self._wake.wait)\n"
        "        self._thread.start()",
        (f"{LEASES}::test_a_job_that_blocks_the_event_loop_for_five_leases_keeps_its_claim",),
    ),
    Guard(
        "a lost lease stops its handler",
        f"{ENGINE}/heartbeat.py",
        "                gone.append(running.claim.job_id)",
        "                pass",
        (f"{LEASES}::test_a_handler_whose_lease_was_lost_is_cancelled_and_its_result_dropped",),
    ),
    Guard(
        "a claim that waited is looked at again",
        f"{ENGINE}/slots.py",
        "or not await self._still_owned(running)",
        "",
        (f"{DISPATCH}::test_a_job_canceled_while_it_waits_for_a_slot_is_not_run",),
    ),
)

DATABASE: Final = (
    Guard(
        "trigger on illegal moves",
        f"{SCHEMA}/02_jobs.sql",
        "for each row\n    when (not (",
        "for each row\n    when (false and not (",
        (f"{MOVES}::test_the_database_allows_exactly_the_moves_of_the_contract",),
    ),
    Guard(
        "trigger on a falling fence",
        f"{SCHEMA}/02_jobs.sql",
        "or new.claim_seq < old.claim_seq",
        "",
        (f"{MOVES}::test_the_fence_rises_with_every_claim_and_never_falls",),
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
        "check (state <> 'validated' or (ticket is not null and replay_safe))",
        "check (true)",
        (f"{STEPS}::test_hand_typed_sql_cannot_skip_the_evidence",),
    ),
    Guard(
        "a login that no rule binds is refused",
        "src/penstock/store/connect.py",
        'if role is not None and (role["rolsuper"] or role["rolbypassrls"]):',
        "if role is None:",
        ("tests/engine/runs/test_dispatch.py::test_a_login_that_no_rule_binds_is_refused",),
    ),
)

FAILING: Final = (
    Guard(
        "retry budget",
        f"{CONTRACT}/verdicts.py",
        "if attempts >= budget:",
        "if attempts > budget:",
        ("tests/contract/test_classify.py::test_an_upstream_error_is_retried_until_the_fifth_failure_ends_the_job",),
    ),
    Guard(
        "what no retry can mend is not retried",
        f"{CONTRACT}/verdicts.py",
        "if not failure.retryable:",
        "if attempts > budget:",
        ("tests/contract/test_classify.py::test_bad_data_ends_the_job_at_its_first_attempt",),
    ),
    Guard(
        "ceiling of Retry-After",
        f"{CONTRACT}/backoff.py",
        "return max(base, min(retry_after, CEILING))",
        "return max(base, retry_after)",
        ("tests/contract/test_backoff.py::test_no_upstream_may_impose_more_than_five_minutes",),
    ),
    Guard(
        "payload cap",
        f"{CONTRACT}/payloads.py",
        "if size > limits.max_bytes:",
        "if size < 0:",
        ("tests/contract/test_payloads.py::test_a_payload_too_large_is_refused_with_its_size_and_the_way_out",),
    ),
    Guard(
        "redactor",
        "src/penstock/telemetry/masks.py",
        'return _literal(match) if kind == "quoted" else _MASKS[str(kind)](match[0])',
        "return match[0] or str(kind)",
        ("tests/telemetry/test_redaction.py::test_a_key_or_token_is_masked_wherever_it_stands",),
    ),
    Guard(
        "two operators never take one step",
        "src/penstock/store/dead_letters.py",
        "where dead_letter_id = $1 for update",
        "where dead_letter_id = $1",
        (f"{STEPS}::test_of_two_operators_at_once_one_takes_the_step",),
    ),
)

GUARDS: Final = (*FENCES, *CLAIMING, *LEASING, *DATABASE, *FAILING)
