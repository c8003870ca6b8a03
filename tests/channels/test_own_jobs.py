"""The channels in a job of somebody's own, as the guide shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import EffectUncertain, Found, Job, Penstock, Schedule
from penstock.channels.port import Channel, Message, WhenUncertain
from penstock.channels.registry import Channels
from penstock.emulator import Emulator
from penstock.testing import Harness
from tests.channels.conftest import channels_to
from tests.support import clusters

TO = "customer@example.com"


@pytest.fixture
def template() -> str:
    return clusters.BARE_TEMPLATE


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[Penstock]:
    made = Penstock(dsn, grace_seconds=5)
    yield made
    await made.close()


def mailing(app: Penstock, channel: Channel) -> None:
    """The job of the guide."""

    @app.job("invoice", attempts=3, backoff=Schedule([0]))
    async def invoice(job: Job, args: dict[str, Any]) -> None:
        written_at = datetime.fromisoformat(args["written_at"])

        async def send(token: str) -> dict[str, str]:
            message = Message(TO, token, "Invoice 17", "You owe us 5.", "<p>You owe us 5.</p>", {}, written_at)
            receipt = await channel.send(TO, token, channel.compose(message))
            return {"id": receipt.notification_id}

        async def settle(token: str) -> Found:
            if channel.window is not None and datetime.now(UTC) - written_at < channel.window:
                return Found(await send(token))
            raise EffectUncertain("the mail may be out; look for it")

        again = channel.when_uncertain is WhenUncertain.SEND_AGAIN
        await job.effect("mail", perform=send, settle=settle if channel.window else None, repeat_when_uncertain=again)


@pytest.mark.contract("C-61", "N-25", "N-37")
@pytest.mark.parametrize(("kind", "path", "delivered"), [("resend", {}, 1), ("smtp", {"method": "DATA"}, 2)])
async def test_a_lost_reply_costs_a_second_mail_only_where_nobody_can_tell(
    app: Penstock, emulator: Emulator, kind: str, path: dict[str, str], delivered: int
) -> None:
    channels: Channels = channels_to(emulator)
    emulator.faults.add("drop_after", provider=kind, nth=1, **path)
    mailing(app, channels.get(kind))

    async with Harness(app) as harness:
        job_id = await harness.enqueue("invoice", {"written_at": datetime.now(UTC).isoformat()})
        await harness.work_until_idle()
        assert await harness.status(job_id) == "completed"

    assert list(emulator.deliveries.by_token().values()) == [delivered]
    assert len({each.body for each in emulator.deliveries}) == 1
    await channels.close()


async def test_past_the_window_a_person_decides(app: Penstock, emulator: Emulator) -> None:
    channels: Channels = channels_to(emulator)
    emulator.faults.add("drop_after", provider="resend", nth=1)
    mailing(app, channels.get("resend"))

    async with Harness(app) as harness:
        job_id = await harness.enqueue("invoice", {"written_at": "2026-01-01T00:00:00+00:00"})
        await harness.work_until_idle()
        assert await harness.status(job_id) == "failed"

    assert len(emulator.deliveries) == 1
    await channels.close()
