"""An outbox is taken over and given back while pollers, producers and workers run and die: the campaign in small."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.apps.vault.migrations import LINE
from penstock.store import migrate
from tests.crash import takeover

pytestmark = pytest.mark.long


@pytest.mark.contract("D-70", "C-17", "D-80", "D-81")
async def test_an_outbox_goes_up_and_down_under_everybodys_hands_and_nothing_is_lost_or_doubled(
    dsn: str, tmp_path: Path
) -> None:
    await asyncio.to_thread(migrate.downgrade, dsn, "0001", of=[LINE])
    verdict = await takeover.run(dsn, tmp_path / "errors.log", rows=1000, seed=20261116, between=10)
    assert verdict.problems == []
    assert (verdict.lost, verdict.doubled, verdict.quarantined) == (0, 0, 1)
    assert [way.name for way in verdict.ways] == ["up", "down", "up", "down"]
    assert verdict.kills == 9
    assert verdict.came > 0
