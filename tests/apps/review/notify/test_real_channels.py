"""The stage over the real channels, against emulated providers that lose replies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.emulator import Emulator
from tests.apps.review.notify.conftest import ADA, Post
from tests.channels.conftest import channels_to

DROPPED = {"resend": {"method": "POST"}, "webhook": {}, "smtp": {"method": "DATA"}}


@pytest.fixture(scope="module")
def started() -> Iterator[Emulator]:
    """One server for all of them."""
    with Emulator(mail=True) as server:
        yield server


@pytest.fixture
def emulator(started: Emulator) -> Emulator:
    """The same server, with nothing of the test before."""
    started.reset()
    return started


def connect(post: Post, emulator: Emulator, channel: str, **settings: str) -> tuple[str, str]:
    """Lead the office to the emulator; returns a recipient."""
    post.office.channels = channels_to(emulator, **settings)
    return channel, emulator.webhook_url("ada") if channel == "webhook" else ADA


@pytest.mark.contract("N-25", "N-37", "C-42")
@pytest.mark.parametrize(("channel", "messages"), [("resend", 1), ("webhook", 2), ("smtp", 2)])
async def test_a_lost_reply_is_no_second_message_to_whoever_knows_the_id(
    post: Post, emulator: Emulator, channel: str, messages: int
) -> None:
    """Resend settles it by its key; a webhook and a mail come again under the same id and with the same bytes."""
    to = connect(post, emulator, channel)
    review = await post.review(to)
    emulator.faults.add("drop_after", provider=channel, nth=1, **DROPPED[channel])
    await post.work()
    await post.retry()
    row = await post.row(to[1])
    assert await post.status(review) == "completed"
    assert emulator.deliveries.by_token() == {row["token"]: messages}
    assert len({(each.identity, each.body) for each in emulator.deliveries}) == 1
    assert row["promise"] == ("at_most_once" if channel == "resend" else "at_least_once")
    assert await post.attempts("send") == [("send", "NETWORK_RESET"), ("send", "sent")]


@pytest.mark.contract("C-42", "C-45")
async def test_a_mail_server_that_hangs_up_is_asked_no_second_time_where_a_person_decides(
    post: Post, emulator: Emulator
) -> None:
    to = connect(post, emulator, "smtp", smtp_when_uncertain="hold")
    await post.review(to)
    emulator.faults.add("drop_after", provider="smtp", method="DATA", nth=1)
    await post.work()
    await post.retry()
    row = await post.row()
    assert (row["status"], row["promise"]) == ("reconciling", "at_most_once")
    assert emulator.deliveries.by_token() == {row["token"]: 1}


@pytest.mark.contract("N-27", "N-28", "N-29", "C-43")
async def test_resend_confirms_what_it_knows_and_what_it_lost_is_sent_again(post: Post, emulator: Emulator) -> None:
    to = connect(post, emulator, "resend")
    await post.review(to)
    await post.work()
    first = await post.row()
    assert emulator.deliveries.lose(first["token"]) == 1
    await post.sweep()
    assert await post.alerts() == ["ordering_violation"]
    await post.finish()
    await post.sweep()
    row = await post.row()
    assert (row["status"], row["provider_confirmed_at"] is not None) == ("sent", True)
    assert row["notification_id"] != first["notification_id"]
    assert emulator.deliveries.by_token() == {row["token"]: 1}


@pytest.mark.contract("C-43")
async def test_a_key_that_may_only_send_proves_no_absence(post: Post, emulator: Emulator) -> None:
    to = connect(post, emulator, "resend", resend_api_key="re_sending_only")
    await post.review(to)
    await post.work()
    emulator.deliveries.lose((await post.row())["token"])
    await post.sweep()
    assert (await post.row())["status"] == "sent"
    assert await post.alerts() == []
    assert await post.attempts("lookup") == [("lookup", "AUTH_DENIED")]


@pytest.mark.contract("N-22", "C-44")
@pytest.mark.parametrize(
    ("channel", "fault"),
    [("resend", {"status": 422}), ("webhook", {"status": 410}), ("smtp", {"method": "RCPT", "status": 550})],
)
async def test_a_provider_that_refuses_the_recipient_fails_the_row(
    post: Post, emulator: Emulator, channel: str, fault: dict[str, object]
) -> None:
    to = connect(post, emulator, channel)
    review = await post.review(to)
    emulator.faults.add("status", provider=channel, **fault)
    await post.work()
    row = await post.row(to[1])
    assert (row["status"], row["send_count"]) == ("failed", 0)
    assert await post.status(review) == "failed"
    assert (await post.letter())["error_class"] == "RECIPIENT_REJECTED"
    assert len(emulator.deliveries) == 0
