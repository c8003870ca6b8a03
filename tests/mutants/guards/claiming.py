"""Claims: who may take what, and how much."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import ENGINE, SQL, Guard

TAKES: Final = "tests/store/test_takes.py"
LOCKED: Final = f"{TAKES}::test_a_job_that_somebody_has_locked_is_left_to_him"
NOT_DUE: Final = f"{TAKES}::test_a_job_that_is_not_due_stays"
GATED: Final = f"{TAKES}::test_a_type_behind_a_gate_is_left_to_its_gate"
CLAIMS: Final = "tests/engine/worker/test_claims.py"
DISPATCH: Final = "tests/engine/worker/test_dispatch.py"
RACES: Final = "tests/model/test_interleavings.py"

GUARDS: Final = (
    Guard(
        "claims skip locked rows",
        f"{SQL}/claims/take.sql",
        "limit $2\n                 for update skip locked) as due",
        "limit $2) as due",
        (f"{LOCKED}[several]",),
    ),
    Guard(
        "claims of one type skip locked rows",
        f"{SQL}/claims/take_of_one.sql",
        "limit $2\n          for update skip locked",
        "limit $2",
        (f"{RACES}::test_two_operations_meet_in_every_order[claim]", f"{RACES}::test_two_scripts_meet_in_every_order"),
    ),
    Guard(
        "only ready jobs are claimed",
        f"{SQL}/claims/take.sql",
        "j.status = 'queued' and j.ready",
        "j.status = 'queued'",
        (f"{NOT_DUE}[several]",),
    ),
    Guard(
        "only ready jobs of one type are claimed",
        f"{SQL}/claims/take_of_one.sql",
        "j.status = 'queued' and j.ready",
        "j.status = 'queued'",
        (f"{NOT_DUE}[one]",),
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
        (f"{GATED}[several]",),
    ),
    Guard(
        "a gated type alone is left to its gate",
        f"{SQL}/claims/take_of_one.sql",
        "select not type.gated",
        "select true",
        ("tests/engine/limits/test_gates.py::test_a_pause_stops_the_next_claim_and_a_resume_starts_it_at_once",),
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
        f"{ENGINE}/bounded.py",
        "if self._run.time_left <= 0:\n            return Requeued",
        "if self._run is None:\n            return Requeued",
        ("tests/engine/runs/test_caps.py::test_what_was_claimed_and_not_started_in_time_goes_back_for_a_minute",),
    ),
    Guard(
        "marks are dropped",
        f"{ENGINE}/marks.py",
        '"""Start from the beginning next time."""\n        self._marks.clear()',
        '"""Start from the beginning next time."""\n        self._born = 10.0**12',
        (f"{CLAIMS}::test_ten_thousand_later_jobs_do_not_hide_one_that_commits_late",),
    ),
)
