"""A worker killed with -9 at every gap between intent, send and mark (N-37)."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.channels.port import Receipt
from penstock.contract.crash import CrashPoint
from tests.apps.review.notify.channel import LOOKUP, Provider
from tests.apps.review.notify.conftest import ADA, Post


class Lasting(Provider):
    """What it has delivered stands in a file, which outlives the process that sent it."""

    def keep_in(self, file: Path) -> None:
        self.file = file
        file.touch()

    async def send(self, address: str, token: str, payload: bytes) -> Receipt:  # noqa: ARG002 - the port's
        with self.file.open("a") as stream:
            stream.write(f"{token}\n")
        return self.receipt(token)

    async def look_up(self, token: str, notification_id: str | None) -> Receipt | None:
        self.looked_up.append((token, notification_id))
        return self.receipt(token) if token in self.file.read_text() else None


@pytest.mark.contract("N-37", "N-36", "N-25")
@pytest.mark.parametrize(
    ("point", "sends", "lookups"),
    [
        (CrashPoint.BEFORE_EFFECT_INTENT, 0, 0),
        (CrashPoint.AFTER_EFFECT_INTENT, 0, 1),
        (CrashPoint.AFTER_EFFECT_PERFORMED, 1, 1),
        (CrashPoint.AFTER_EFFECT_MARKED, 1, 0),
    ],
)
async def test_wherever_a_worker_is_killed_one_message_is_delivered(
    post: Post, tmp_path: Path, point: CrashPoint, sends: int, lookups: int
) -> None:
    provider = Lasting("smtp", LOOKUP)
    provider.keep_in(tmp_path / "delivered")
    post.office.channels.use("smtp", provider)
    review = await post.review(ADA)
    await post.harness.work_and_die(point)
    assert provider.file.read_text().count("\n") == sends
    assert await post.status(review) == "processing"
    await post.harness.pass_time(minutes=6)
    await post.finish()
    assert await post.status(review) == "completed"
    assert provider.file.read_text() == (await post.row())["token"] + "\n"
    assert len(provider.looked_up) == lookups
