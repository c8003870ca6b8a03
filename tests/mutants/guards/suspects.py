"""Suspects and the records of drains: a job that ends its process costs only itself, and rows stay few."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import ENGINE, FAULTS, SQL, SUSPECTS, Guard

ALONE: Final = "tests/engine/worker/test_suspects.py"
RECORDS: Final = "tests/engine/worker/test_records.py"
STOPPING: Final = "tests/engine/worker/test_stopping.py"
RUNS: Final = "tests/engine/runs/test_suspects.py"
KILLS: Final = f"{FAULTS}/test_suspects.py"

GUARDS: Final = (
    Guard(
        "what a process held comes back as suspects",
        f"{SUSPECTS}/02_reap.sql",
        "ready = ends, suspect = not ends,",
        "ready = true, suspect = not ends,",
        (f"{KILLS}::test_a_job_that_ends_its_process_is_the_only_one_that_pays[exit]",),
    ),
    Guard(
        "a promotion leaves suspects alone",
        f"{SQL}/claims/promote.sql",
        " and not j.suspect",
        "",
        (f"{KILLS}::test_a_job_that_ends_its_process_is_the_only_one_that_pays[exit]",),
    ),
    Guard(
        "a process lets go of everything before it takes a suspect",
        f"{ENGINE}/suspects.py",
        "            reserved = await self._let_go(reserved)\n",
        "",
        (f"{ALONE}::test_a_suspect_runs_while_its_process_holds_nothing_else",),
    ),
    Guard(
        "nothing is claimed beside a suspect",
        f"{ENGINE}/suspects.py",
        "                await self._emptied()\n",
        "",
        (f"{ALONE}::test_a_suspect_runs_while_its_process_holds_nothing_else",),
    ),
    Guard(
        "a suspect is set aside for one worker",
        f"{SQL}/claims/reserve.sql",
        "                 and coalesce(j.reserved_until <= penstock.now(), true)\n",
        "",
        (
            f"{ALONE}::test_a_busy_worker_sets_the_suspect_aside_and_gives_back_what_has_not_started",
            f"{ALONE}::test_a_reservation_that_ran_out_is_no_claim",
        ),
    ),
    Guard(
        "a reservation that ran out is no claim",
        f"{SUSPECTS}/03_gates.sql",
        "       and j.reserved_until = p_reserved\n",
        "",
        (f"{ALONE}::test_a_reservation_that_ran_out_is_no_claim",),
    ),
    Guard(
        "what has not started goes back before a suspect runs",
        f"{ENGINE}/suspects.py",
        "                self._slots.release_backlog(timedelta(0), None)\n",
        "                pass\n",
        (f"{ALONE}::test_a_busy_worker_sets_the_suspect_aside_and_gives_back_what_has_not_started",),
    ),
    Guard(
        "a worker that stops waits for no suspect",
        f"{ENGINE}/suspects.py",
        "if self._fetcher.stopping or (emptied",
        "if (emptied",
        (f"{ALONE}::test_a_worker_that_stops_while_it_waits_for_its_handlers_lets_the_suspect_go",),
    ),
    Guard(
        "a suspect that was stopped stays one",
        f"{ENGINE}/running.py",
        "return self.started > 0 and self.stop is None",
        "return True",
        (f"{ALONE}::test_a_suspect_that_a_shutdown_stops_stays_one_and_pays_nothing",),
    ),
    Guard(
        "a suspect that failed as others do is none",
        f"{SQL}/claims/requeue.sql",
        "suspect = job.suspect and not v.survived",
        "suspect = job.suspect",
        (
            f"{KILLS}::test_a_suspect_that_fails_as_others_do_is_no_suspect_any_more",
            f"{ALONE}::test_a_suspect_that_asks_for_a_later_time_is_none_any_more",
        ),
    ),
    Guard(
        "an orphaned suspect goes back as one",
        f"{SQL}/claims/release_orphans.sql",
        "ready = not job.suspect",
        "ready = true",
        (f"{ALONE}::test_a_claim_whose_reply_was_lost_gives_a_suspect_back_as_one",),
    ),
    Guard(
        "the gate of a type holds for its suspects",
        f"{SUSPECTS}/03_gates.sql",
        "if not found or (type.gated and penstock.gate_room(type, 1, 0, null, at) = 0) then",
        "if not found then",
        (f"{ALONE}::test_a_limit_of_one_lets_one_suspect_through[max_running = 1]",),
    ),
    Guard(
        "no worker stops for a suspect whose gate is shut",
        f"{SQL}/claims/reserve.sql",
        "        where not type.gated or penstock.gate_room(type, 1, 0, $4, penstock.now()) > 0\n",
        "",
        (f"{ALONE}::test_no_worker_stops_for_a_suspect_whose_gate_is_shut",),
    ),
    Guard(
        "room is kept for a suspect that is set aside",
        f"{SUSPECTS}/03_gates.sql",
        "p_type.max_running - p_kept - (",
        "p_type.max_running - (",
        (f"{ALONE}::test_room_under_a_limit_is_kept_for_a_suspect_that_is_set_aside",),
    ),
    Guard(
        "a busy worker gives way to what is due",
        f"{ENGINE}/worker.py",
        "        self.fetcher.gives_way = lambda: self._maintain\n",
        "",
        (f"{ALONE}::test_a_busy_worker_sets_the_suspect_aside_and_gives_back_what_has_not_started",),
    ),
    Guard(
        "a load without an end does not keep a worker from polling",
        f"{ENGINE}/worker.py",
        "        self._sleep(self._settings.poll_seconds)  # a load",
        "        # a load",
        (f"{ALONE}::test_a_worker_that_never_rests_looks_for_expired_leases_all_the_same",),
    ),
    Guard(
        "suspects leave room for the others in a run",
        f"{ENGINE}/bounded.py",
        "            if self._run.room() <= jobs or self._run.time_left <= seconds:\n",
        "            if self._run.room() <= 0:\n",
        (f"{RUNS}::test_suspects_and_other_jobs_share_the_cap_of_a_run",),
    ),
    Guard(
        "a worker without a free slot hears that it must stop",
        f"{ENGINE}/fetcher.py",
        "        self.stopping = True\n        self._slots.nudge()\n",
        "        self.stopping = True\n",
        (f"{STOPPING}::test_a_worker_without_a_free_slot_stops_within_its_grace",),
    ),
    Guard(
        "drains of a minute share a record",
        f"{ENGINE}/fetcher.py",
        "return Run(group.function, trigger, bounds, now, record)",
        "return Run(group.function, trigger, bounds, now)",
        (f"{RECORDS}::test_two_hundred_jobs_that_trickle_in_leave_a_handful_of_records",),
    ),
    Guard(
        "a record ends with its minute",
        f"{ENGINE}/fetcher.py",
        "now - record.started_mono >= RECORD_SECONDS or ",
        "",
        (f"{RECORDS}::test_two_hundred_jobs_that_trickle_in_leave_a_handful_of_records",),
    ),
    Guard(
        "a record keeps to the cap of one run",
        f"{ENGINE}/fetcher.py",
        " or record.granted >= caps.jobs",
        "",
        ("tests/engine/worker/test_dispatch.py::test_a_drain_that_filled_its_cap_is_followed_at_once",),
    ),
    Guard(
        "an older state of a record changes nothing",
        f"{SUSPECTS}/04_runs.sql",
        "     where excluded.claimed_count >= run.claimed_count\n",
        "",
        (f"{RECORDS}::test_an_older_state_of_a_record_that_comes_late_changes_nothing",),
    ),
)
