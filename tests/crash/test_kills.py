"""A hundred workers killed at named points, and the history that must hold all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash import campaign

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support import servers

pytestmark = pytest.mark.long


@pytest.mark.contract("D-81", "D-84", "C-31", "C-60", "C-61")
async def test_a_hundred_killed_workers_lose_nothing_and_double_nothing(
    server: servers.PrivateServer, tmp_path: Path
) -> None:
    verdict = await campaign.run(server.dsn, tmp_path / "world", kills=100, seed=20261115)
    assert verdict.at_points >= 100
    assert verdict.jobs > 200
    assert verdict.problems == []
