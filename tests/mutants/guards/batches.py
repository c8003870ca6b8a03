"""Batches on their way out: who shares one, who may mark it, and what is asked before anything is sent again."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import CONTRACT, ENGINE, SQL, Guard

HERE: Final = "tests/engine/batches"
RECOVERY: Final = f"{HERE}/test_recovery.py"
CLAIMS: Final = f"{HERE}/test_submit_claims.py"
REFUSED: Final = f"{HERE}/test_submit_refused.py"
SENDING: Final = f"{ENGINE}/batches/sending.py"
ANTHROPIC: Final = "tests/providers/test_anthropic_batches.py"
SUBMITTER: Final = f"{ENGINE}/batches/submitter.py"

GUARDS: Final = (
    Guard(
        "a group has eight parts",
        f"{CONTRACT}/groups.py",
        "        route.target_locale,\n",
        '        "",\n',
        (f"{HERE}/test_groups.py::test_any_part_that_differs_splits_the_group",),
    ),
    Guard(
        "the intent of a batch holds its claims",
        f"{SQL}/batches/intend.sql",
        "asked.claim_seq, true, penstock.now()",
        "asked.claim_seq, false, penstock.now()",
        (f"{RECOVERY}::test_no_reaper_touches_a_job_with_an_open_intent",),
    ),
    Guard(
        "an intent has all its claims or none",
        f"{SQL}/batches/intend.sql",
        "where (select count(*) from owned) = cardinality($17::uuid[])",
        "where (select count(*) from owned) >= 0",
        (f"{CLAIMS}::test_a_job_that_is_canceled_before_the_intent_leaves_no_gap",),
    ),
    Guard(
        "an intent needs the claim itself",
        f"{SQL}/batches/intend.sql",
        "and job.status = 'processing' and job.claimed_by = $16\n"
        "       and coalesce((job.job_id, job.claim_seq) in (select asked.job_id, asked.claim_seq from asked), false)",
        "and job.status = 'processing' and $16::text is not null",
        (f"{CLAIMS}::test_a_claim_that_was_lost_while_it_was_parked_is_not_submitted",),
    ),
    Guard(
        "a submission taken over is not marked",
        f"{SQL}/batches/mark.sql",
        "and b.collector is not distinct from $8::text",
        "and ($8::text is null or true)",
        (f"{RECOVERY}::test_a_submitter_whose_submission_was_taken_over_cannot_mark_it",),
    ),
    Guard(
        "a provider batch is written once",
        f"{SQL}/batches/mark.sql",
        "coalesce(job.provider_batch_id, $2)",
        "$2",
        (f"{HERE}/test_submitting.py::test_a_job_keeps_its_first_provider_batch_through_every_retry",),
    ),
    Guard(
        "a canceled job is not marked",
        f"{SQL}/batches/mark.sql",
        "and job.status = 'processing' and ($7::text",
        "and ($7::text",
        (f"{CLAIMS}::test_a_job_that_is_canceled_on_its_way_stays_canceled",),
    ),
    Guard(
        "an unknown outcome is not a failure",
        SENDING,
        "            return await self._doubt(shelf, part, error)\n",
        "            return await self._give_back(shelf, part, error)\n",
        (f"{RECOVERY}::test_a_batch_whose_reply_was_lost_is_found_and_not_sent_again",),
    ),
    Guard(
        "asked once more before the create",
        SENDING,
        'if not await persist("batch", lambda: submissions.in_hand(self._place.pool, part.batch_id)):',
        "if part.batch_id is None:",
        (f"{RECOVERY}::test_a_submitter_that_wakes_up_before_the_create_does_not_create",),
    ),
    Guard(
        "a batch made too late is cancelled",
        SENDING,
        'if state in ("abandoned", "submitted", "collected"):',
        'if state == "nothing":',
        (f"{RECOVERY}::test_a_batch_that_a_stalled_submitter_made_too_late_is_cancelled",),
    ),
    Guard(
        "a refusal opens the breaker",
        SENDING,
        "failure.error_class not in _PASSING, max(",
        "False, max(",
        (f"{REFUSED}::test_a_refused_submission_gives_every_job_back_and_opens_the_breaker",),
    ),
    Guard(
        "a refusal holds the rest of its type back",
        SUBMITTER,
        "if sent is Sent.REFUSED:",
        "if sent is Sent.LOST:",
        (f"{REFUSED}::test_no_other_batch_of_the_type_goes_out_behind_a_refused_one",),
    ),
    Guard(
        "a refusal waits for the breaker",
        SENDING,
        "max(delay, cooldown if opens else delay), code",
        "delay, code",
        (f"{REFUSED}::test_what_was_refused_waits_as_long_as_the_breaker",),
    ),
    Guard(
        "a missing key is nobody's failure",
        SUBMITTER,
        "if providers.knows(route.adapter):",
        "if not providers:",
        (f"{REFUSED}::test_a_missing_key_costs_no_job_anything",),
    ),
    Guard(
        "no batch begins after the time is up",
        SUBMITTER,
        "if self._run.time_left <= 0 or self._sent",
        "if self._sent",
        (f"{HERE}/test_submit_overflow.py::test_what_is_left_when_the_time_is_up_goes_back_for_a_minute",),
    ),
    Guard(
        "what is parked goes back",
        SUBMITTER,
        "self._give_back([*self._lot.leave(), *self._undecided.values()], timedelta(0), SHUTDOWN)",
        "self._lot.leave()",
        (
            f"{CLAIMS}::test_what_is_parked_goes_back_when_the_run_dies_of_something_else",
            f"{CLAIMS}::test_what_was_not_sent_yet_goes_back_when_the_run_breaks_off",
        ),
    ),
    Guard(
        "a canceled job leaves the lot",
        SUBMITTER,
        "            if member.running.stop is None:\n",
        "            if True:\n",
        (f"{CLAIMS}::test_a_parked_job_that_was_stopped_is_not_even_offered",),
    ),
    Guard(
        "doubts are settled first",
        SUBMITTER,
        "        await self._patiently(self._recover)\n",
        "",
        (f"{RECOVERY}::test_a_batch_whose_reply_was_lost_is_found_and_not_sent_again",),
    ),
    Guard(
        "an absence is proven by its grace",
        f"{SQL}/batches/missing.sql",
        "returning penstock.now() - b.missing_since >= $3::interval",
        "returning $3::interval is not null",
        (f"{RECOVERY}::test_only_a_proven_absence_gives_the_jobs_back_and_charges_nothing",),
    ),
    Guard(
        "a submission in hand is left there",
        f"{SQL}/batches/adopt.sql",
        "j.lease_expires_at > penstock.now())",
        "j.lease_expires_at is null)",
        (f"{RECOVERY}::test_a_submission_in_somebodys_hand_is_left_there",),
    ),
    Guard(
        "one recovery at a time",
        f"{SQL}/batches/adopt.sql",
        "and (b.collector_until is null or b.collector_until <= penstock.now())",
        "and true",
        (f"{RECOVERY}::test_a_recovery_that_died_is_followed_by_the_next",),
    ),
    Guard(
        "only batches of that time are candidates",
        "src/penstock/providers/anthropic_messages.py",
        'if (moment(batch.get("created_at")) or until) > until:',
        "if until is None:",
        (f"{ANTHROPIC}::test_what_was_created_later_is_no_candidate_so_that_a_busy_lane_can_prove_an_absence",),
    ),
    Guard(
        "a foreign result in front does not hide our batch",
        "src/penstock/providers/anthropic_messages.py",
        'if any(name.startswith(f"{token}-") for name in names):',
        'if any(name.startswith(f"{token}-") for name in names[:1]):',
        (f"{ANTHROPIC}::test_a_result_that_nobody_asked_for_does_not_hide_whose_batch_it_is",),
    ),
    Guard(
        "results that broke off prove no absence",
        "src/penstock/providers/anthropic_messages.py",
        "await lines.proven(head, promised.size, framed=promised.framed)",
        "names = names or [token]",
        (f"{ANTHROPIC}::test_results_that_broke_off_before_a_name_are_no_absence",),
    ),
    Guard(
        "an ended batch without results proves no absence",
        "src/penstock/providers/anthropic_messages.py",
        ' or not batch.get("results_url"):',
        ":",
        (f"{ANTHROPIC}::test_an_ended_batch_without_results_may_be_anybodys",),
    ),
    Guard(
        "no create after the time that a recovery looks at",
        SENDING,
        "time() - begun > LONGEST + PAUSE:",
        "time() - begun > 1e9:",
        (f"{RECOVERY}::test_a_create_comes_in_the_time_that_a_recovery_looks_at_or_not_at_all",),
    ),
    Guard(
        "of two batches one is cancelled",
        f"{ENGINE}/batches/recovery.py",
        "            await _cancel(adapter, other)\n",
        "            assert other\n",
        (f"{RECOVERY}::test_of_two_batches_of_one_submission_one_is_kept_and_one_cancelled",),
    ),
    Guard(
        "the batch to keep is one that runs",
        f"{ENGINE}/batches/recovery.py",
        "return one.cancelled, one.created_at",
        "return False, one.created_at",
        (f"{RECOVERY}::test_one_that_is_being_cancelled_is_not_the_one_to_keep",),
    ),
    Guard(
        "what was given up is watched",
        f"{ENGINE}/batches/recovery.py",
        "        settled.orphans += await _cancel_orphans(db, adapters, batch)\n",
        "        assert batch\n",
        (f"{RECOVERY}::test_a_batch_that_appears_after_it_was_given_up_is_found_and_cancelled",),
    ),
    Guard(
        "an open intent is no orphan",
        f"{SQL}/claims/release_orphans.sql",
        "e.claim_seq = j.claim_seq and e.holds_claim\n",
        "e.claim_seq = j.claim_seq and e.holds_claim and false\n",
        (f"{CLAIMS}::test_jobs_of_an_open_intent_are_no_orphans_of_a_name",),
    ),
    Guard(
        "the collector keeps ahead",
        f"{ENGINE}/batches/pace.py",
        "    if cap < needed:\n",
        "    if cap < 0:\n",
        (f"{HERE}/test_lane.py::test_a_collector_that_its_submitter_would_outrun_is_refused",),
    ),
)
