"""Batches on their way back: whose a line is, which job waits for it, and what is believed of a provider."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import ENGINE, SCHEMA, SQL, WALLS, Guard

HERE: Final = "tests/engine/batches"
COLLECTING: Final = f"{HERE}/test_collecting.py"
LINES: Final = f"{HERE}/test_collect_lines.py"
POLLS: Final = f"{HERE}/test_collect_polls.py"
TWICE: Final = f"{HERE}/test_collect_twice.py"
SETTLING: Final = f"{HERE}/test_settling.py"
COSTS: Final = f"{HERE}/test_costs.py"
FILES: Final = f"{HERE}/test_files.py"
BATCHES: Final = f"{ENGINE}/batches"
PROVIDERS: Final = "src/penstock/providers"
ERRORS: Final = "tests/providers/test_errors.py"
PARSING: Final = "tests/providers/test_lines.py"

GUARDS: Final = (
    Guard(
        "a completed item names its claim",
        f"{SQL}/batch_items/complete.sql",
        "and ended.job_id = job.job_id and ended.claim_seq = job.claim_seq and job.status",
        "and ended.job_id = job.job_id and job.status",
        (f"{HERE}/test_collect_fences.py::test_no_statement_moves_a_job_under_another_claim[complete]",),
    ),
    Guard(
        "a requeued item names its claim",
        f"{SQL}/batch_items/requeue.sql",
        "and ended.job_id = job.job_id and ended.claim_seq = job.claim_seq and job.status",
        "and ended.job_id = job.job_id and job.status",
        (f"{HERE}/test_collect_fences.py::test_no_statement_moves_a_job_under_another_claim[requeue]",),
    ),
    Guard(
        "a failed item names its claim",
        f"{SQL}/batch_items/fail.sql",
        "and ended.job_id = job.job_id and ended.claim_seq = job.claim_seq and job.status",
        "and ended.job_id = job.job_id and job.status",
        (f"{HERE}/test_collect_fences.py::test_no_statement_moves_a_job_under_another_claim[fail]",),
    ),
    Guard(
        "an advanced item names its claim",
        f"{SQL}/batch_items/advance.sql",
        "and ended.job_id = job.job_id and ended.claim_seq = job.claim_seq and job.status",
        "and ended.job_id = job.job_id and job.status",
        (f"{HERE}/test_collect_fences.py::test_no_statement_moves_a_job_under_another_claim[advance]",),
    ),
    Guard(
        "own rows are written only while the job waits for the item",
        f"{BATCHES}/settling.py",
        "if await store.hold(connection, item.end.job_id, item.end.claim_seq):",
        "if await store.hold(connection, item.end.job_id, item.end.claim_seq) or True:",
        (f"{SETTLING}::test_the_own_rows_of_a_job_that_is_canceled_meanwhile_are_not_written",),
    ),
    Guard(
        "an item ends once",
        f"{SCHEMA}/05_batches.sql",
        "item.batch_item_index = ended.index and item.state = 'open'",
        "item.batch_item_index = ended.index",
        (f"{HERE}/test_collect_fences.py::test_an_item_that_has_its_end_keeps_it_and_is_paid_for_once",),
    ),
    Guard(
        "a line of nobody is dropped",
        f"{BATCHES}/items.py",
        "            sheet.unknown += 1\n            continue\n",
        "            continue\n",
        (f"{LINES}::test_a_line_of_nobody_is_dropped_with_one_alert[foreign]",),
    ),
    Guard(
        "lines that differ are not guessed at",
        f"{BATCHES}/items.py",
        "if known is not None and not known.same_as(result):",
        "if known is not None and not known.same_as(result) and not known.digest:",
        (f"{LINES}::test_two_lines_that_differ_fail_their_request_and_nobody_guesses",),
    ),
    Guard(
        "a missing line of a completed batch is a failure",
        f"{BATCHES}/plans.py",
        "        return Line(failure=MISSING)\n",
        "        return Line(failure=EXPIRED)\n",
        (f"{LINES}::test_a_completed_batch_that_lacks_a_line_fails_that_request_and_tells",),
    ),
    Guard(
        "a count that does not fit is told",
        f"{BATCHES}/plans.py",
        'made.alerts.append(("batch_count_mismatch", counts))',
        "counts.clear()",
        (f"{LINES}::test_a_completed_batch_that_lacks_a_line_fails_that_request_and_tells",),
    ),
    Guard(
        "what an early end left out tries again",
        f"{BATCHES}/plans.py",
        "    if state.phase is not Phase.FAILED:\n        return Line(failure=EXPIRED)\n",
        "    if state.phase is not Phase.FAILED:\n        return Line(failure=MISSING)\n",
        (f"{LINES}::test_a_batch_that_ended_early_gives_its_finished_items_and_tries_the_others_again[expired]",),
    ),
    Guard(
        "a refused batch charges nobody but the lines it names",
        f"{BATCHES}/settling.py",
        "return Back(item.end, line.back, charged=False,",
        "return Back(item.end, line.back, charged=True,",
        (f"{LINES}::test_a_refused_batch_fails_the_lines_it_names_and_sends_the_others_back_uncharged",),
    ),
    Guard(
        "a refusal without a reason ends",
        f"{BATCHES}/settling.py",
        "patient = line.failure is None or self._refusals.get(item.job.job_id, 0) < PATIENT",
        "patient = True",
        (f"{LINES}::test_a_batch_refused_without_naming_a_line_goes_back_three_times_and_then_counts[no reason]",),
    ),
    Guard(
        "who was refused together is parted",
        f"{BATCHES}/packing.py",
        "batch_key(member.request.route), parted)",
        "batch_key(member.request.route))",
        (f"{LINES}::test_one_request_that_spoils_every_batch_ends_alone_and_the_others_complete",),
    ),
    Guard(
        "back-pressure never counts",
        f"{BATCHES}/plans.py",
        "        if failure.retryable or failure.opens_breaker:\n",
        "        if failure.opens_breaker:\n",
        (f"{LINES}::test_back_pressure_never_counts_however_often_it_comes",),
    ),
    Guard(
        "a batch refused for its account holds the type",
        f"{BATCHES}/collector.py",
        "        if plan.breaker is not None:\n            await self._hold_type(batch, plan.breaker)\n",
        "",
        (f"{LINES}::test_a_batch_refused_for_its_account_is_nobodys_failure_and_opens_the_breaker",),
    ),
    Guard(
        "a broken line is nobody's only in a whole file",
        f"{PROVIDERS}/lines.py",
        "(broken and not told and (last or not framed))",
        "False",
        (f"{PARSING}::test_a_line_that_the_provider_itself_has_broken_is_nobodys_once_all_of_it_is_here",),
    ),
    Guard(
        "a line that the provider broke holds nobody up",
        f"{PROVIDERS}/lines.py",
        "(broken and not told and (last or not framed))",
        "broken",
        (f"{PARSING}::test_a_line_that_the_provider_itself_has_broken_is_nobodys_once_all_of_it_is_here",),
    ),
    Guard(
        "no answer fills the memory",
        f"{PROVIDERS}/wire.py",
        "            if left < 0:\n",
        "            if left is None:\n",
        (f"{ERRORS}::test_an_answer_that_does_not_end_is_cut_off_before_it_fills_the_memory[200-openai_responses]",),
    ),
    Guard(
        "nothing is settled from half a download",
        f"{BATCHES}/collector.py",
        "        if sheet is None:\n            return\n",
        "        if sheet is None:\n            sheet = plans.NOTHING\n",
        (f"{LINES}::test_a_download_that_breaks_marks_nothing_and_is_made_again[1]",),
    ),
    Guard(
        "a batch that is not found is not lost before its deadline",
        f"{BATCHES}/collector.py",
        '            if polling.late(batch):\n                await self._alert(batch, "batch_deadline_passed"',
        '            if batch:\n                await self._alert(batch, "batch_deadline_passed"',
        (f"{POLLS}::test_a_batch_that_has_vanished_is_told_of_at_once_and_given_up_at_its_deadline",),
    ),
    Guard(
        "a wrong key is no loss",
        f"{BATCHES}/polling.py",
        "return failure.error_class is FailureClass.NOT_FOUND",
        "return failure.error_class is not FailureClass.UPSTREAM_5XX",
        (f"{POLLS}::test_a_provider_that_cannot_be_asked_looks_like_a_failure_and_never_like_loss[AUTH_DENIED]",),
    ),
    Guard(
        "a batch past its deadline is canceled",
        f"{BATCHES}/collector.py",
        "asked = batch.cancel_asked_at is not None or polling.late(batch)",
        "asked = batch.cancel_asked_at is not None",
        (f"{POLLS}::test_a_batch_past_its_deadline_is_canceled_and_what_is_there_of_it_is_collected",),
    ),
    Guard(
        "an operator can end what nobody can read",
        f"{BATCHES}/polling.py",
        "return not failure.retryable or batch.now > batch.cancel_asked_at + CANCEL_GRACE",
        "return not failure.retryable",
        (f"{POLLS}::test_a_batch_whose_results_nobody_can_read_ends_an_hour_after_an_operator_cancels_it",),
    ),
    Guard(
        "one collector has a batch at a time",
        f"{SQL}/batch_items/lease.sql",
        "          and coalesce(due.collector_until, '-infinity') <= penstock.now()\n",
        "",
        (f"{TWICE}::test_a_batch_that_one_collector_has_is_left_alone_by_another",),
    ),
    Guard(
        "a refused end is its own item's",
        f"{BATCHES}/settling.py",
        'await in_halves(ends, lambda some: persist("items", lambda: self._end_on(self.pool, some)))',
        '(await persist("items", lambda: self._end_on(self.pool, ends)), [])',
        (f"{SETTLING}::test_a_completion_that_a_trigger_refuses_is_a_failed_attempt_and_the_others_complete",),
    ),
    Guard(
        "whatever persist raises is its item's failure",
        f"{BATCHES}/settling.py",
        "        raise _StoreRaised(error) from None\n",
        "        raise\n",
        (f"{SETTLING}::test_whatever_a_persist_raises_is_not_taken_for_a_database_that_is_away[raised0]",),
    ),
    Guard(
        "no word of an answer is kept",
        f"{BATCHES}/accepting.py",
        'return Refused(failure, "" if plain else redact_stack(error, messages=False))',
        'return Refused(failure, "" if plain else redact_stack(error, messages=True))',
        (f"{LINES}::test_no_word_of_an_answer_gets_into_a_letter_an_alert_or_an_error",),
    ),
    Guard(
        "a cap pauses its type",
        f"{WALLS}/03_policies.sql",
        "    if total < cap then",
        "    if total < cap * 1000 then",
        (f"{COSTS}::test_the_item_that_reaches_the_cap_pauses_the_type_until_the_next_day",),
    ),
    Guard(
        "a refused item is paid for",
        f"{BATCHES}/items.py",
        "return self.used if self.answer is None else self.answer.usage",
        "return NOTHING if self.answer is None else self.answer.usage",
        (f"{COSTS}::test_an_item_that_was_refused_or_cut_off_costs_what_it_used",),
    ),
    Guard(
        "a refused call is paid for",
        f"{BATCHES}/asking.py",
        "            await record_usage(place, policy, request.route, failed.usage)\n",
        "            assert policy\n",
        (f"{COSTS}::test_a_single_call_that_was_refused_or_cut_off_costs_what_it_used",),
    ),
    Guard(
        "only the cap's own pause is lifted",
        f"{SQL}/spend/reopen.sql",
        "   and type.paused_by = 'penstock' and type.pause_reason = 'SPEND_CAP'\n",
        "",
        (f"{COSTS}::test_only_what_the_cap_has_paused_is_opened_again",),
    ),
    Guard(
        "a given-up submission leaves no input",
        f"{SQL}/batch_items/list_files.sql",
        "b.state in ('collected', 'abandoned')",
        "b.state = 'collected'",
        (f"{FILES}::test_the_input_of_a_submission_that_was_given_up_is_deleted_by_its_name",),
    ),
    Guard(
        "an upload in doubt has time to end",
        f"{SQL}/batch_items/count_files.sql",
        "   and (b.state = 'collected' or b.created_at <= penstock.now() - interval '1 hour')\n",
        "",
        (f"{FILES}::test_the_input_of_a_submission_that_was_given_up_is_deleted_by_its_name",),
    ),
    Guard(
        "erasure does not ask the setting",
        f"{SQL}/batch_items/list_files.sql",
        "($2 or b.erase_asked_at is not null)",
        "$2",
        (f"{FILES}::test_erasure_deletes_the_files_of_a_home_whatever_the_setting_says",),
    ),
)
