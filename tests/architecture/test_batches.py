"""Only the submitter's statements make a job wait for a batch (Q-13)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

STORE: Final = Path(__file__).parents[2] / "src" / "penstock"
ASSIGNED: Final = re.compile(r"(?:\bset|,)\s+status\s*=\s*'batch_submitted'", re.IGNORECASE)
MOVED: Final = re.compile(r"-- moves:.*-> batch_submitted")


def writers(pattern: re.Pattern[str]) -> set[str]:
    """Every file of ours whose text has *pattern*."""
    files = [path for ending in ("*.sql", "*.py") for path in STORE.rglob(ending)]
    return {str(path.relative_to(STORE)) for path in files if pattern.search(path.read_text())}


@pytest.mark.contract("Q-13")
def test_only_the_mark_of_a_submission_writes_batch_submitted() -> None:
    assert writers(ASSIGNED) == {"store/sql/batches/mark.sql"}
    assert writers(MOVED) == {"store/sql/batches/mark.sql"}
