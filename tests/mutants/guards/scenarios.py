"""What a provider can do to a batch, end to end: each row is missed by the scenario or fault that it is there for."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import CONTRACT, ENGINE, Guard

HERE: Final = "tests/engine/batches"
COLLECTOR: Final = f"{HERE}/test_scenarios_collector.py"
FAULTS: Final = f"{HERE}/test_scenarios_faults.py"
BATCHES: Final = f"{ENGINE}/batches"
PROVIDERS: Final = "src/penstock/providers"

GUARDS: Final = (
    Guard(
        "the error file is read as well",
        f"{PROVIDERS}/openai_api.py",
        "for file_id in (state.output_file_id, state.error_file_id) if file_id]",
        "for file_id in (state.output_file_id,) if file_id]",
        (
            f"{COLLECTOR}::test_scenario_1_completed_without_an_output_file_and_everything_in_the_error_file[openai_responses]",
        ),
    ),
    Guard(
        "status 0 is no answer of anybody",
        f"{PROVIDERS}/failing.py",
        "    if status == 0:\n",
        "    if status is None:\n",
        (f"{COLLECTOR}::test_scenario_2_the_counts_say_that_all_is_well_and_the_lines_do_not[openai_responses]",),
    ),
    Guard(
        "an expired batch may have results",
        f"{BATCHES}/polling.py",
        "return state.phase is not Phase.FAILED or bool(state.output_file_id or state.error_file_id)",
        "return state.phase is Phase.COMPLETED",
        (
            f"{COLLECTOR}::test_scenario_3_expired_with_results_that_are_paid_for[openai_responses]",
            f"{FAULTS}::test_fault_28_what_an_expired_batch_has_finished_is_taken[anthropic_messages]",
        ),
    ),
    Guard(
        "a file has the size that was promised",
        f"{PROVIDERS}/lines.py",
        "    whole = all(len(artifact) == size for size in told)\n",
        "    whole = True\n",
        (
            f"{COLLECTOR}::test_scenario_5_a_download_that_breaks_off_writes_nothing_and_is_made_again[close-openai_responses]",
            f"{FAULTS}::test_fault_27_a_truncated_file_marks_nothing_and_is_downloaded_again[gemini_generate]",
        ),
    ),
    Guard(
        "a file that is not there is not read",
        f"{PROVIDERS}/openai_api.py",
        "for file_id in (state.output_file_id, state.error_file_id) if file_id]",
        "for file_id in (state.output_file_id, state.error_file_id)]",
        (f"{COLLECTOR}::test_scenario_6_an_empty_file_id_is_no_file[empty_error_file_id-openai_responses]",),
    ),
    Guard(
        "the lines of a refusal count from 1",
        f"{PROVIDERS}/openai_states.py",
        "index = line - 1 if",
        "index = line if",
        (f"{COLLECTOR}::test_scenario_8_one_bad_line_fails_that_item_and_sends_the_others_back[openai_responses]",),
    ),
    Guard(
        "a storm is waited out",
        f"{BATCHES}/sending.py",
        "not in _PASSING, max(self._overflow, wait)",
        "not in _PASSING, self._overflow",
        (f"{FAULTS}::test_fault_22_a_storm_of_refusals_is_waited_out_and_not_answered_in_a_loop[openai_responses]",),
    ),
    Guard(
        "a provider that is down is polled more slowly",
        f"{BATCHES}/polling.py",
        "usual * 2 ** min(batch.poll_failures + 1, 10)",
        "usual",
        (f"{FAULTS}::test_fault_22_a_provider_that_is_down_is_polled_more_and_more_slowly[openai_responses]",),
    ),
    Guard(
        "a call in hand ends with the grace",
        f"{BATCHES}/submitter.py",
        "        asyncio.get_running_loop().call_later(grace, self._sender.halt)\n",
        "        assert grace >= 0\n",
        (f"{FAULTS}::test_fault_30_a_sigterm_during_the_upload_gives_the_jobs_back[openai_responses]",),
    ),
    Guard(
        "a code from outside is not kept",
        f"{CONTRACT}/errors.py",
        "upstream_code if upstream_code in BY_CODE else None",
        "upstream_code",
        ("tests/providers/test_errors.py::test_a_code_that_our_table_knows_is_kept_and_no_other[openai_responses]",),
    ),
    Guard(
        "private types keep no words",
        f"{BATCHES}/ends.py",
        "if failure.why and settler.job_type.policy.error_messages else code",
        "if failure.why else code",
        (f"{HERE}/test_bad_input.py::test_a_type_whose_text_is_private_keeps_the_class_and_no_words",),
    ),
)
