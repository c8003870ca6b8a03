"""Submitters and collectors killed at named points, over providers that lose replies."""

from __future__ import annotations

import pytest

from tests.crash import lane

pytestmark = pytest.mark.long


@pytest.mark.contract("C-36", "C-61", "C-66", "A-57", "A-95")
async def test_killed_submitters_and_collectors_lose_no_item_and_store_no_output_twice(dsn: str) -> None:
    verdict = await lane.run(dsn, kills=24, seed=20261120)
    assert verdict.problems == []
    assert verdict.kills >= 24
    assert verdict.jobs > 50
    assert sum(verdict.batches.values()) > 12
