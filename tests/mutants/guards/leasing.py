"""Leases: kept while a worker lives, returned when it does not."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import ENGINE, FAULTS, STORE, SUSPECTS, Guard

LEASES: Final = "tests/engine/worker/test_leases.py"
SLOTS: Final = "tests/engine/worker/test_slots.py"
SILENCE: Final = f"{FAULTS}/test_silence.py"
RACES: Final = "tests/model/test_interleavings.py"

GUARDS: Final = (
    Guard(
        "the reaper looks at the lease",
        f"{SUSPECTS}/02_reap.sql",
        "and j.lease_expires_at < at",
        "",
        (f"{LEASES}::test_an_expired_claim_goes_back_and_one_that_is_a_second_younger_stays",),
    ),
    Guard(
        "the reaper locks before it writes",
        f"{SUSPECTS}/02_reap.sql",
        "           for update of j skip locked\n",
        "",
        (
            f"{RACES}::test_two_operations_meet_in_every_order[complete]",
            f"{RACES}::test_two_operations_meet_in_every_order",
        ),
    ),
    Guard(
        "cap of reclaims",
        f"{SUSPECTS}/02_reap.sql",
        "job.reclaim_count >= job.max_reclaims",
        "false",
        (f"{LEASES}::test_the_sixth_expiry_of_such_a_type_ends_the_job_as_lease_expired",),
    ),
    Guard(
        "an expiry spends an attempt",
        f"{SUSPECTS}/02_reap.sql",
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
        (f"{FAULTS}/test_leases.py::test_a_handler_that_blocks_the_event_loop_keeps_its_claim_from_every_reaper",),
    ),
    Guard(
        "a lost lease stops its handler",
        f"{ENGINE}/heartbeat.py",
        "gone = [running for running in due if running.claim.job_id not in owned]",
        "gone: list[Running] = []",
        (
            f"{FAULTS}/test_leases.py::test_a_job_that_another_worker_has_taken_over_stops_here_and_its_result_is_dropped",
        ),
    ),
    Guard(
        "a claim that waited is looked at again",
        f"{ENGINE}/slots.py",
        "or not await self._still_owned(running)",
        "",
        ("tests/engine/worker/test_stopping.py::test_a_job_canceled_while_it_waits_for_a_slot_is_not_run",),
    ),
    Guard(
        "a renewal passes over rows that others hold",
        f"{STORE}/sql/claims/renew.sql",
        "       for no key update skip locked\n",
        "       for no key update\n",
        (f"{FAULTS}/test_obstructions.py::test_a_row_that_somebody_holds_costs_no_other_lease",),
    ),
    Guard(
        "an end that others stand in the way of waits alone",
        f"{ENGINE}/patience.py",
        " or (divisible and isinstance(error, connect.OBSTRUCTED))",
        "",
        (f"{FAULTS}/test_obstructions.py::test_a_completion_behind_somebodys_lock_waits_alone_and_is_written",),
    ),
    Guard(
        "a claim whose slot has died is let go",
        f"{ENGINE}/slots.py",
        "                self._drop(running, error)\n",
        "",
        (f"{SLOTS}::test_a_claim_whose_slot_has_ended_under_it_is_renewed_no_more",),
    ),
    Guard(
        "a cancellation ends with its slot",
        f"{ENGINE}/slots.py",
        "            if task.cancelling():\n",
        "            if not task:\n",
        (f"{SLOTS}::test_a_cancellation_that_a_handler_leaves_behind_is_not_the_next_jobs",),
    ),
    Guard(
        "a new connection asks about no arrays before it renews",
        f"{STORE}/array_types.py",
        "if wanted <= _answers.keys():",
        "if not wanted:",
        (f"{FAULTS}/test_leases.py::test_a_slow_database_costs_no_lease",),
    ),
    Guard(
        "a listener asks whether it still hears",
        f"{ENGINE}/listener.py",
        "if not await self._alive():",
        "if not self._probe:",
        (
            f"{FAULTS}/test_connections.py::test_a_listener_that_hears_nothing_any_more_is_replaced_and_the_worker_drains",
        ),
    ),
    Guard(
        "a listener that is back looks at everything",
        f"{ENGINE}/listener.py",
        "            self._restored()\n",
        "",
        (
            f"{FAULTS}/test_connections.py::test_a_listener_that_hears_nothing_any_more_is_replaced_and_the_worker_drains",
        ),
    ),
    Guard(
        "a lost reply is looked up",
        f"{STORE}/claims.py",
        """return _missing(claims, await db.fetch(sql("claims/settled"), ids, fences, worker))""",
        "return list(claims)",
        (f"{FAULTS}/test_connections.py::test_a_completion_whose_reply_was_lost_counts_once",),
    ),
    Guard(
        "claims that nobody heard of go back",
        f"{ENGINE}/worker.py",
        "                self._orphans_possible = True\n",
        "",
        (f"{FAULTS}/test_connections.py::test_a_claim_whose_reply_was_lost_is_given_back_at_once",),
    ),
    Guard(
        "a connection without an answer is cut",
        f"{STORE}/silence.py",
        "call_later(seconds, self.terminate)",
        "call_later(seconds, int)",
        (f"{SILENCE}::test_a_claim_without_an_answer_is_made_again[freeze]",),
    ),
    Guard(
        "the connection for claims is watched by the statement",
        f"{STORE}/kept.py",
        "        connection.leave(self._answer_within)\n",
        "",
        ("tests/store/test_kept.py::test_a_statement_that_gets_no_answer_is_cut_off_and_the_next_one_is_answered",),
    ),
    Guard(
        "… and may rest",
        f"{STORE}/kept.py",
        "            bare(self._connection).come_back()",
        "            pass",
        ("tests/store/test_kept.py::test_it_may_rest_for_longer_than_a_statement_may_take",),
    ),
    Guard(
        "a plan does not put off the look after a loss",
        f"{ENGINE}/worker.py",
        "if not self._maintain:  # else",
        "if True:  # else",
        ("tests/engine/worker/test_idling.py::test_a_plan_made_before_a_loss_does_not_put_off_the_look_after_it",),
    ),
    Guard(
        "a connection that came back is not cut",
        f"{STORE}/silence.py",
        "            self.cutting.cancel()",
        "            pass",
        (f"{SILENCE}::test_a_connection_that_comes_back_in_time_is_kept",),
    ),
    Guard(
        "a statement ends with its client",
        f"{STORE}/silence.py",
        """await connection.execute(f"set client_connection_check_interval = '{NOTICE}'")""",
        "return",
        (f"{SILENCE}::test_a_statement_whose_client_has_given_up_does_not_stay_behind_on_the_server",),
    ),
    Guard(
        "the kernel watches",
        f"{STORE}/connect.py",
        "        silence.keep_alive(connection)\n        if",
        "        if",
        (f"{SILENCE}::test_the_kernel_watches_every_connection_over_tcp",),
    ),
)
