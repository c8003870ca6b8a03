"""Workers killed at every gap of send and mark, and replies that are lost: the campaign of deliveries, in small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import deliveries

pytestmark = pytest.mark.long


@pytest.mark.contract("N-36", "N-37", "N-25", "C-42", "C-61")
@pytest.mark.parametrize(("policy", "count", "kills"), [("send_again", 21, 6), ("hold", 9, 3)])
async def test_whoever_is_killed_everybody_is_told_and_nobody_twice_where_a_channel_can_tell(
    dsn: str, role_dsn: Callable[[str], str], tmp_path: Path, policy: str, count: int, kills: int
) -> None:
    verdict = await deliveries.run(
        dsn, role_dsn, tmp_path / "workers.log", deliveries=count, kills=kills, seed=20261117, policy=policy
    )
    assert verdict.problems == []
    assert verdict.kills >= kills
    assert verdict.deliveries >= count
    resend, webhook, smtp = (verdict.counts[name] for name in ("resend", "webhook", "smtp"))
    assert (resend.raw, webhook.ids, smtp.ids) == (verdict.deliveries // 3,) * 3
    assert smtp.doubled <= (smtp.possible if policy == "send_again" else 0)
