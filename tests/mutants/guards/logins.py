"""Walls inside the database: what a login of one role cannot do, whatever SQL it runs."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import WALLS, Guard

WORKERS: Final = "tests/walls/test_workers.py"
OPERATORS: Final = "tests/walls/test_operators.py"
PATHS: Final = "tests/walls/test_paths.py"
AUDIT: Final = "tests/walls/test_audit.py"
LOCKS: Final = "tests/walls/test_keys_and_locks.py"

GUARDS: Final = (
    Guard(
        "a definer names pg_temp last",
        f"{WALLS}/01_paths.sql",
        "execute format('alter function %s set search_path = pg_catalog, pg_temp', definer::regprocedure);",
        "null;",
        (
            f"{PATHS}::test_every_function_that_runs_as_the_owner_names_pg_temp_last_and_is_for_named_roles",
            f"{PATHS}::test_a_temporary_type_runs_no_code_as_the_owner",
        ),
    ),
    Guard(
        "a worker cancels only what it holds",
        f"{WALLS}/02_moves.sql",
        "        or (new.status = 'canceled' and old.status <> 'canceled')\n",
        "",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "a worker cancels nothing of another login",
        f"{WALLS}/02_moves.sql",
        "w.db_user <> session_user",
        "false",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "what has ended is not rewritten",
        f"{WALLS}/02_moves.sql",
        "when (old.finished_at is not null\n        or",
        "when (false\n        or",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "a fence moves with a claim alone",
        f"{WALLS}/02_moves.sql",
        "and (new.claim_seq <> old.claim_seq\n                 or",
        "and (false\n                 or",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "a claim is its holder's",
        f"{WALLS}/02_moves.sql",
        "or new.claimed_by is distinct from old.claimed_by\n                 or",
        "or",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "a queued job keeps its time",
        f"{WALLS}/02_moves.sql",
        "or (old.status = 'queued' and new.run_at <> old.run_at)",
        "or false",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "attempts never fall",
        f"{WALLS}/02_moves.sql",
        "        or new.attempt_count < old.attempt_count\n        or",
        "        or",
        (f"{WORKERS}::test_nobody_can",),
    ),
    Guard(
        "reclaims never fall",
        f"{WALLS}/02_moves.sql",
        "        or new.reclaim_count < old.reclaim_count\n        or",
        "        or",
        (f"{WORKERS}::test_nobody_can",),
    ),
    Guard(
        "a parameter is no key to the audit",
        f"{WALLS}/02_moves.sql",
        "current_setting('penstock.pruning', true) = 'on' and penstock.is_owner() then",
        "current_setting('penstock.pruning', true) = 'on' then",
        (f"{AUDIT}::test_the_parameter_of_pruning_opens_nothing_to_a_role_that_was_given_too_much",),
    ),
    Guard(
        "a parameter is no key to the jobs",
        f"{WALLS}/02_moves.sql",
        "current_setting('penstock.importing', true) = 'on' and penstock.is_owner() then",
        "current_setting('penstock.importing', true) = 'on' then",
        (f"{AUDIT}::test_the_parameter_of_pruning_opens_nothing_to_a_role_that_was_given_too_much",),
    ),
    Guard(
        "attempts of a stage never fall",
        f"{WALLS}/04_records.sql",
        "when (new.attempts < old.attempts or",
        "when (",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "the result of a stage stays",
        f"{WALLS}/04_records.sql",
        "or new.result is distinct from old.result",
        "or false",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "counts of a run never fall",
        f"{WALLS}/04_records.sql",
        "or new.failed_count < old.failed_count",
        "or false",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "a run that has ended stays so",
        f"{WALLS}/04_records.sql",
        "or (old.finished_at is not null and new.finished_at is null))\n    execute",
        "or false)\n    execute",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "an effect that is done is not rewritten",
        f"{WALLS}/04_records.sql",
        "or new.perform_count < old.perform_count or old.state = 'done')",
        "or new.perform_count < old.perform_count)",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "a batch keeps its provider's id",
        f"{WALLS}/04_records.sql",
        "or (old.provider_batch_id is not null and new.provider_batch_id is distinct from "
        "old.provider_batch_id)\n"
        "        or (old.submitted_at",
        "or (old.submitted_at",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "an erasure is not withdrawn",
        f"{WALLS}/04_records.sql",
        "or (old.erase_asked_at is not null and new.erase_asked_at is null)",
        "or false",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "a batch moves only forward",
        f"{WALLS}/04_records.sql",
        "or (old.state = 'submitted' and new.state = 'collected'))",
        "or old.state = 'submitted')",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "an item that is settled stays so",
        f"{WALLS}/04_records.sql",
        "when (old.state <> 'open'\n        or",
        "when (false\n        or",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "a worker's name is its login's",
        f"{WALLS}/04_records.sql",
        "if old.db_user is not null and old.stopped_at is null",
        "if false and old.stopped_at is null",
        (f"{WORKERS}::test_a_worker_cannot",),
    ),
    Guard(
        "only a failed job is buried",
        f"{WALLS}/04_records.sql",
        "if not found or job.status <> 'failed' then",
        "if not found then",
        (f"{WORKERS}::test_a_worker_buries_only_what_has_failed_and_only_once",),
    ),
    Guard(
        "a failure is buried once",
        f"{WALLS}/04_records.sql",
        "if letter.last_job_id = p_job_id then",
        "if false then",
        (f"{WORKERS}::test_a_worker_buries_only_what_has_failed_and_only_once",),
    ),
    Guard(
        "no failure without a letter",
        f"{WALLS}/04_records.sql",
        "for each row when (new.status = 'failed' and old.status <> 'failed')",
        "for each row when (false)",
        (f"{WORKERS}::test_a_job_that_a_worker_fails_by_hand_has_its_dead_letter_or_does_not_fail",),
    ),
    Guard(
        "an opening has a reason",
        f"{WALLS}/05_operators.sql",
        "if coalesce(btrim(p_reason), '') = '' then",
        "if false then",
        (f"{OPERATORS}::test_a_payload_is_opened_with_a_reason_and_leaves_a_trace",),
    ),
    Guard(
        "an opening leaves a trace",
        f"{WALLS}/05_operators.sql",
        "    perform penstock.note_act('open_payload', p_actor, jsonb_build_object('job_id', p_job_id, "
        "'opening', number), p_reason);\n",
        "",
        (f"{OPERATORS}::test_a_payload_is_opened_with_a_reason_and_leaves_a_trace",),
    ),
    Guard(
        "a login is not chosen",
        f"{WALLS}/05_operators.sql",
        "values (penstock.now(), session_user, left(",
        "values (penstock.now(), coalesce(p_actor, session_user), left(",
        (f"{OPERATORS}::test_every_act_keeps_the_login_beside_the_name_it_gave",),
    ),
    Guard(
        "a replay needs its steps",
        f"{WALLS}/05_operators.sql",
        "if letter.steps_required and (letter.state not in ('validated', 'replaying')",
        "if false and (letter.state not in ('validated', 'replaying')",
        (f"{OPERATORS}::test_the_five_steps_are_taken_in_their_order_whatever_calls_them",),
    ),
    Guard(
        "a validation needs its ticket",
        f"{WALLS}/05_operators.sql",
        "if letter.state not in ('remediated', 'validated') or coalesce(btrim(p_ticket), '') = ''",
        "if letter.state not in ('remediated', 'validated')",
        (f"{OPERATORS}::test_the_five_steps_are_taken_in_their_order_whatever_calls_them",),
    ),
    Guard(
        "a letter closes with a completed replay",
        f"{WALLS}/05_operators.sql",
        "if letter.state <> 'replaying' or letter.replay_status is distinct from 'completed'",
        "if letter.state <> 'replaying'",
        (f"{OPERATORS}::test_a_letter_is_closed_with_notes_and_a_completed_replay",),
    ),
    Guard(
        "a replay has its type's budget",
        f"{WALLS}/05_operators.sql",
        "least(j.max_attempts, t.max_attempts) as attempts",
        "j.max_attempts as attempts",
        (f"{OPERATORS}::test_a_replay_has_the_budget_of_its_type_and_a_full_restart_begins_at_its_first_stage",),
    ),
    Guard(
        "retention is what is stored",
        f"{WALLS}/06_retention.sql",
        "select greatest(p_asked, coalesce((select r.keep from penstock.retention r where r.what = "
        "p_what), interval '1 day'))",
        "select coalesce(p_asked, interval '1 day')",
        (f"{AUDIT}::test_a_worker_that_asks_for_no_retention_removes_nothing_younger_than_what_is_stored",),
    ),
    Guard(
        "no retention below a day",
        f"{WALLS}/06_retention.sql",
        "if p_keep is null or p_keep < interval '1 day' then",
        "if p_keep is null then",
        (f"{AUDIT}::test_nothing_younger_than_a_day_goes_even_where_an_operator_keeps_records_for_a_day",),
    ),
    Guard(
        "no job younger than a day goes",
        f"{WALLS}/06_retention.sql",
        "       and j.finished_at < penstock.now() - interval '1 day'\n",
        "",
        (f"{AUDIT}::test_a_policy_that_keeps_jobs_for_an_hour_keeps_them_for_a_day",),
    ),
    Guard(
        "a key begins with its type",
        f"{WALLS}/07_enqueue.sql",
        "    if not starts_with(p_key, p_type || ':') then",
        "    if false then",
        (f"{LOCKS}::test_a_caller_cannot_take_the_key_of_another_type",),
    ),
    Guard(
        "keys of many begin with their type",
        f"{WALLS}/07_enqueue.sql",
        "if exists (select from unnest(p_keys) as i(key) where not starts_with(i.key, p_type || ':')) then",
        "if false then",
        (f"{LOCKS}::test_a_caller_cannot_take_the_key_of_another_type",),
    ),
    Guard(
        "locks are salted",
        f"{WALLS}/07_enqueue.sql",
        "select hashtextextended(s.salt || ':' || p_name, 0) from penstock.lock_salt s",
        "select hashtextextended(p_name, 0)",
        (f"{LOCKS}::test_a_lock_is_salted_with_what_a_frontend_cannot_read",),
    ),
    Guard(
        "a trigger's function is for no role",
        f"{WALLS}/08_grants.sql",
        "            penstock.put_plain(text, text, uuid, text),\n"
        "            penstock.put_jobs(text, uuid[], text[], text[], timestamptz, interval, smallint, "
        "text[], boolean),\n"
        "            penstock.enqueue(text, jsonb, text, timestamptz, interval, integer, text, integer),\n"
        "            penstock.raise_refusal(text, text), penstock.poke(text, text), "
        "penstock.lock_key(text),\n"
        "            penstock.is_owner()",
        "            penstock.put_plain(text, text, uuid, text), penstock.audit(),\n"
        "            penstock.put_jobs(text, uuid[], text[], text[], timestamptz, interval, smallint, "
        "text[], boolean),\n"
        "            penstock.enqueue(text, jsonb, text, timestamptz, interval, integer, text, integer),\n"
        "            penstock.raise_refusal(text, text), penstock.poke(text, text), "
        "penstock.lock_key(text),\n"
        "            penstock.is_owner()",
        (f"{WORKERS}::test_a_worker_cannot_lend_the_function_of_a_trigger_to_a_table_of_its_own",),
    ),
)
