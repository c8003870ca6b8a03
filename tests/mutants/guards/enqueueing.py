"""Enqueue: one job per key, nothing oversized, pokes after the commit."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import ENGINE, SCHEMA, SQL, STORE, WALLS, Guard

KEYS: Final = "tests/engine/enqueue/test_keys.py"
POKES: Final = "tests/engine/enqueue/test_pokes.py"
SESSIONS: Final = "tests/engine/enqueue/test_session_pokes.py"

GUARDS: Final = (
    Guard(
        "one key, one job",
        f"{WALLS}/07_enqueue.sql",
        "type.staged, p_type, type.stage, p_key,\n",
        "type.staged, p_type, type.stage, p_key || gen_random_uuid()::text,\n",
        (f"{KEYS}::test_a_key_answers_whatever_became_of_its_job",),
    ),
    Guard(
        "one key, one payload",
        f"{WALLS}/07_enqueue.sql",
        "if kept.payload is distinct from p_payload::jsonb then",
        "if false then",
        (f"{KEYS}::test_the_same_key_with_other_arguments_is_refused_and_the_job_stays",),
    ),
    Guard(
        "keys outlive their jobs",
        f"{SCHEMA}/05_retention.sql",
        "or exists (select from penstock.kept_keys k where k.idempotency_key = p.idempotency_key)",
        "or true",
        ("tests/engine/retention/test_retention.py::test_a_job_whose_key_is_not_kept_yet_is_not_removed",),
    ),
    Guard(
        "payload cap of the database",
        f"{WALLS}/07_enqueue.sql",
        "if octet_length(p_payload) > type.max_payload_bytes then",
        "if false then",
        ("tests/engine/enqueue/test_sql.py::test_a_wrong_job_is_refused_in_sql_too",),
    ),
    Guard(
        "a type's own role",
        f"{WALLS}/07_enqueue.sql",
        "type.enqueue_role, 'member') then\n        return",
        "type.enqueue_role, 'member') and false then\n        return",
        ("tests/engine/enqueue/test_refusals.py::test_what_the_database_alone_knows_is_refused_too",),
    ),
    Guard(
        "pokes wait for the commit",
        f"{ENGINE}/callers.py",
        "caller.after_commit(lambda voice: self._committed(voice, channel, job_type))",
        "send(channel, job_type)",
        (f"{POKES}::test_a_session_pokes_after_the_root_commit_and_not_when_a_savepoint_is_released",),
    ),
    Guard(
        "a session that is cut off leaves its poke to others",
        f"{STORE}/drivers/alchemy.py",
        "or there is no event loop here\n        return False\n",
        "or there is no event loop here\n        return True\n",
        (f"{SESSIONS}::test_a_session_that_is_cut_off_after_its_commit_has_committed_and_another_connection_pokes",),
    ),
    Guard(
        "one session of a burst pokes by itself",
        f"{ENGINE}/producer.py",
        "if statement is None or self.pokes.carry(channel, job_type) is Carried.NOTHING:",
        "if statement is None:",
        (f"{SESSIONS}::test_in_a_burst_of_commits_the_first_pokes_by_itself_and_the_others_together",),
    ),
    Guard(
        "only the root transaction counts",
        f"{STORE}/drivers/sessions.py",
        "        if depth:\n",
        "        if depth > 100:\n",
        (f"{POKES}::test_a_session_pokes_after_the_root_commit_and_not_when_a_savepoint_is_released",),
    ),
    Guard(
        "a rollback sends no poke",
        f"{ENGINE}/owned.py",
        "        _CURRENT.set(before)\n    for call in transaction.after:\n        call()",
        "        _CURRENT.set(before)\n        for call in transaction.after:\n            call()",
        (f"{POKES}::test_a_transaction_of_the_engine_pokes_after_its_commit_and_never_after_a_rollback",),
    ),
    Guard(
        "two schedulers never take one tick",
        f"{SQL}/schedules/claim.sql",
        "and (due.lease_expires_at is null or due.lease_expires_at <= penstock.now())",
        "",
        (
            "tests/engine/schedules/test_ticks.py::test_many_schedulers_run_one_tick_once",
            "tests/engine/schedules/test_ticks.py::test_a_schedule_does_not_overlap_itself",
        ),
    ),
    Guard(
        "a COMMIT that was a rollback is no success",
        f"{STORE}/silence.py",
        'if status == "ROLLBACK" and query == "COMMIT;":',
        "if False:",
        (
            "tests/engine/enqueue/test_transactions.py::test_a_transaction_that_had_failed_says_that_nothing_was_committed",
        ),
    ),
    Guard(
        "a COMMIT that no longer waits is in doubt",
        f"{STORE}/silence.py",
        "            self.doubtful = True",
        "            self.doubtful = False",
        ("tests/faults/test_failover.py::test_a_commit_that_no_longer_waits_for_its_replica_is_in_doubt[enqueue]",),
    ),
)
