"""Limits: pauses, breakers, rates, and how many run at once."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import SCHEMA, SUSPECTS, Guard

GATES: Final = "tests/engine/limits/test_gates.py"
RUNNING: Final = "tests/engine/limits/test_running.py"

GUARDS: Final = (
    Guard(
        "a paused type is not claimed",
        f"{SUSPECTS}/03_gates.sql",
        "if p_type.paused_at is not null then",
        "if false then",
        (f"{GATES}::test_a_pause_stops_the_next_claim_and_a_resume_starts_it_at_once",),
    ),
    Guard(
        "an open breaker lets nothing through",
        f"{SUSPECTS}/03_gates.sql",
        "if p_type.breaker_probe_at > p_at then",
        "if false then",
        (
            f"{GATES}::test_a_breaker_opens_after_so_many_failures_that_no_retry_can_mend",
            f"{GATES}::test_while_a_probe_is_under_way_there_is_no_second",
        ),
    ),
    Guard(
        "a breaker opens",
        f"{SCHEMA}/05_gates.sql",
        "type.breaker = 'closed' and type.breaker_failures < type.breaker_after",
        "type.breaker = 'closed'",
        (f"{GATES}::test_a_breaker_opens_after_so_many_failures_that_no_retry_can_mend",),
    ),
    Guard(
        "limit of running jobs",
        f"{SUSPECTS}/03_gates.sql",
        "if p_type.max_running is not null then",
        "if false then",
        (f"{RUNNING}::test_both_limits_hold_together",),
    ),
    Guard(
        "limit of a key",
        f"{SCHEMA}/05_gates.sql",
        "if p_type.key_max_running is not null then",
        "if false then",
        (f"{RUNNING}::test_each_key_has_its_own_room",),
    ),
    Guard(
        "rate of a type",
        f"{SUSPECTS}/03_gates.sql",
        "if room > 0 and p_type.rate_count is not null then",
        "if false then",
        ("tests/engine/limits/test_rates.py::test_no_more_start_in_a_period_than_its_rate",),
    ),
)
