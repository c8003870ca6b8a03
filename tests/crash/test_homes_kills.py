"""Many homes, and submitters and collectors that are killed at named points: the campaign of the rewrites, in small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import homes

pytestmark = pytest.mark.long


@pytest.mark.contract("A-08", "A-48", "A-76", "L-67", "C-60")
async def test_whoever_is_killed_no_home_sees_another_and_no_unit_has_two_outputs(
    dsn: str, role_dsn: Callable[[str], str], tmp_path: Path
) -> None:
    verdict = await homes.run(dsn, role_dsn, [tmp_path / "workers.log"], requests=120, count=6, kills=16, seed=20261116)
    assert verdict.problems == []
    assert verdict.requests >= 120
    assert verdict.kills >= 16
    assert verdict.ends["completed"] > 80
    assert verdict.ends["failed"] > 0
