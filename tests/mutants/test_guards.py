"""The rows of `make mutants` are true: each guard is where it says, and so are the tests that must miss it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.guard import Guard
from tests.mutants.guards import GUARDS

ROOT: Final = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_stands_once_where_its_row_says(guard: Guard) -> None:
    assert (ROOT / guard.file).read_text().count(guard.text) == 1
    assert guard.text != guard.without


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_the_tests_of_a_guard_are_there(guard: Guard) -> None:
    assert guard.tests
    for test in guard.tests:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text()


def test_no_two_guards_have_one_name() -> None:
    assert [name for name, count in Counter(guard.name for guard in GUARDS).items() if count > 1] == []
    assert len(GUARDS) >= 15
