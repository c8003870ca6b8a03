"""A worker that lasts: messages it does not believe, parts that do not end unseen, databases that go and come back."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import ENGINE, Guard

CONTROL: Final = "tests/engine/worker/test_control.py"

GUARDS: Final = (
    Guard(
        "a cancel is looked up before a handler is stopped",
        f"{ENGINE}/cancels.py",
        "[running for running in held if running.claim in gone]",
        "held",
        (f"{CONTROL}::test_a_forged_cancel_stops_nothing_and_costs_no_attempt",),
    ),
    Guard(
        "messages are answered together",
        f"{ENGINE}/paced.py",
        "wait = self._last + self._seconds - loop.time()",
        "wait = 0",
        (f"{CONTROL}::test_a_flood_of_other_messages_makes_a_few_looks_as_well",),
    ),
)
