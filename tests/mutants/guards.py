"""The guards: what keeps the promises, each with the tests that must miss it.

A row says which text of which file is the guard, what stands there without
it, and the narrowest tests that fail then. A new guard is a new row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SQL: Final = "src/penstock/store/sql"
SCHEMA: Final = "src/penstock/store/migrations/sql/0001_engine"
ENGINE: Final = "src/penstock/engine"
CONTRACT: Final = "src/penstock/contract"

CLAIMS: Final = "tests/engine/worker/test_claims.py"
LEASES: Final = "tests/engine/worker/test_leases.py"
DISPATCH: Final = "tests/engine/worker/test_dispatch.py"
MODEL: Final = "tests/model/test_state_machine.py"
RACES: Final = "tests/model/test_interleavings.py"
FENCE: Final = f"{CLAIMS}::test_no_write_succeeds_without_the_exact_claim"


@dataclass(frozen=True)
class Guard:
    """One guard. *text* stands exactly once in *file*; with *without* in its place one of *tests* must fail."""

    name: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]


GUARDS: Final = (
    Guard(
        "the fence of complete",
        f"{SQL}/claims/complete.sql",
        "(job.job_id, job.claim_seq) in (select pair.job_id, pair.claim_seq",
        "(job.job_id, 1) in (select pair.job_id, 1",
        (FENCE,),
    ),
)
