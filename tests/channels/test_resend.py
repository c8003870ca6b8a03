"""Resend: once per token, found by its id, and no answer taken for another."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from penstock.channels.port import Channel, Receipt, Settles, WhenUncertain
from penstock.channels.registry import Channels
from penstock.contract.classify import classify
from penstock.contract.errors import EffectUncertain, Failed, NotPerformed
from penstock.contract.failures import FailureClass
from penstock.emulator import Emulator
from tests.channels.conftest import KEY, channels_to, message_to, token_of

TO = "somebody@example.com"
TOKEN = token_of("one")
POST = {"provider": "resend", "method": "POST"}


@pytest.fixture
def resend(channels: Channels) -> Channel:
    return channels.get("resend")


async def send(channel: Channel, **changes: Any) -> Receipt:
    message = message_to(TO, **changes)
    return await channel.send(TO, message.token, channel.compose(message))


async def failure(channel: Channel, **changes: Any) -> tuple[Failed, bool]:
    """What a send fails of, and whether it is certain that nothing was sent."""
    with pytest.raises((Failed, NotPerformed)) as caught:
        await send(channel, **changes)
    certain = isinstance(caught.value, NotPerformed)
    failed = caught.value.__cause__ if certain else caught.value
    assert isinstance(failed, Failed)
    return failed, certain


@pytest.mark.contract("C-42")
async def test_it_declares_a_lookup_by_id_and_a_replay_for_23_hours(resend: Channel) -> None:
    assert resend.settles == {Settles.LOOKUP_BY_ID, Settles.IDEMPOTENT_REPLAY}
    assert resend.window == timedelta(hours=23)
    assert resend.when_uncertain is WhenUncertain.HOLD


@pytest.mark.contract("N-10")
async def test_the_body_is_the_same_in_every_process_and_the_token_is_its_key(
    resend: Channel, emulator: Emulator
) -> None:
    await send(resend)

    [delivery] = emulator.deliveries
    assert delivery.token == TOKEN
    assert delivery.body == channels_to(emulator).get("resend").compose(message_to(TO))
    body = json.loads(delivery.body)
    assert body["subject"] == "Zwölf Befunde Bcc: everybody@example.com"
    assert body["headers"]["Auto-Submitted"] == "auto-generated"
    assert (body["from"], body["to"]) == ("Prüfer & Söhne <reviews@example.org>", [TO])


@pytest.mark.contract("C-42", "N-25")
async def test_a_lost_reply_is_in_doubt_and_the_same_bytes_again_give_the_first_id(
    resend: Channel, emulator: Emulator
) -> None:
    emulator.faults.add("drop_after", **POST, nth=1)

    failed, certain = await failure(resend)
    receipt = await send(resend)

    assert (failed.error_class, certain) == (FailureClass.NETWORK_RESET, False)
    assert emulator.deliveries.count(TOKEN) == 1
    assert next(iter(emulator.deliveries)).identity == receipt.notification_id


async def test_past_the_window_the_key_is_forgotten_and_the_mail_goes_out_again(
    resend: Channel, emulator: Emulator
) -> None:
    await send(resend)
    emulator.advance(24 * 3600 + 1)
    await send(resend)

    assert emulator.deliveries.count(TOKEN) == 2


async def test_other_bytes_under_a_known_key_are_a_conflict_that_is_never_repeated(
    resend: Channel, emulator: Emulator
) -> None:
    await send(resend)

    failed, certain = await failure(resend, text="something else")

    assert (failed.error_class, certain) == (FailureClass.CONFLICT, False)
    assert not classify(failed, idempotent=True).retryable
    assert emulator.deliveries.count(TOKEN) == 1


@pytest.mark.contract("N-22", "E-03", "E-04", "E-07")
@pytest.mark.parametrize(
    ("fault", "error_class", "retryable", "certain"),
    [
        ({"kind": "rate_limited", "retry_after": 7}, FailureClass.RATE_LIMITED, True, True),
        ({"kind": "quota"}, FailureClass.QUOTA_EXHAUSTED, False, True),
        ({"kind": "quota", "code": "monthly_quota_exceeded"}, FailureClass.QUOTA_EXHAUSTED, False, True),
        ({"kind": "unauthorized"}, FailureClass.AUTH_DENIED, False, True),
        ({"kind": "forbidden"}, FailureClass.AUTH_DENIED, False, True),
        ({"kind": "conflict"}, FailureClass.CONFLICT, True, False),
        ({"kind": "server_error"}, FailureClass.UPSTREAM_5XX, True, False),
        ({"kind": "bad_gateway"}, FailureClass.UPSTREAM_5XX, True, False),
        ({"kind": "html"}, FailureClass.UPSTREAM_5XX, True, False),
        ({"kind": "broken_json"}, FailureClass.UPSTREAM_5XX, True, False),
        ({"kind": "empty_body"}, FailureClass.UPSTREAM_5XX, True, False),
        ({"kind": "status", "status": 200, "json": {"id": "../x"}}, FailureClass.UPSTREAM_5XX, True, False),
        ({"kind": "status", "status": 200, "json": []}, FailureClass.UPSTREAM_5XX, True, False),
        ({"kind": "drop"}, FailureClass.NETWORK_RESET, True, False),
        ({"kind": "status", "status": 302}, FailureClass.CONFIG_INVALID, False, True),
        ({"kind": "status", "status": 413}, FailureClass.PAYLOAD_REJECTED, False, True),
        ({"kind": "status", "status": 451}, FailureClass.POLICY_REJECTED, False, True),
        (
            {"kind": "status", "status": 422, "code": "validation_error", "message": "Invalid `to` field."},
            FailureClass.RECIPIENT_REJECTED,
            False,
            True,
        ),
        (
            {"kind": "status", "status": 422, "code": "validation_error", "message": "Invalid `subject`."},
            FailureClass.SCHEMA_INVALID,
            False,
            True,
        ),
        ({"kind": "status", "status": 422, "code": "invalid_from_address"}, FailureClass.CONFIG_INVALID, False, True),
        (
            {"kind": "status", "status": 403, "code": "validation_error", "message": "The domain is not verified."},
            FailureClass.CONFIG_INVALID,
            False,
            True,
        ),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
async def test_every_refusal_has_its_class_and_says_whether_the_mail_may_be_out(
    resend: Channel,
    emulator: Emulator,
    fault: dict[str, Any],
    error_class: FailureClass,
    retryable: bool,
    certain: bool,
) -> None:
    emulator.faults.add(**POST, **fault)

    failed, was_certain = await failure(resend)

    assert (failed.error_class, was_certain) == (error_class, certain)
    assert classify(failed, idempotent=True).retryable is retryable
    assert failed.retry_after == (timedelta(seconds=7) if "retry_after" in fault else None)
    assert emulator.deliveries.count(TOKEN) == 0


@pytest.mark.contract("E-02")
async def test_where_nobody_listens_nothing_was_sent(emulator: Emulator) -> None:
    channels = channels_to(emulator, resend_url="http://127.0.0.1:1")

    failed, certain = await failure(channels.get("resend"))

    assert (failed.error_class, certain) == (FailureClass.NETWORK_RESET, True)
    await channels.close()


@pytest.mark.contract("C-43", "N-17")
async def test_a_mail_is_found_by_its_id_and_none_only_where_resend_says_there_is_no_such_mail(
    resend: Channel, emulator: Emulator
) -> None:
    sent = await send(resend)

    found = await resend.look_up(TOKEN, sent.notification_id)
    emulator.deliveries.lose(TOKEN)

    assert found is not None
    assert (found.notification_id, found.at is not None) == (sent.notification_id, True)
    assert await resend.look_up(TOKEN, sent.notification_id) is None


@pytest.mark.contract("C-42", "C-43")
async def test_a_key_that_may_only_send_never_proves_an_absence(emulator: Emulator) -> None:
    channels = channels_to(emulator, resend_api_key="re_sending_only")
    resend = channels.get("resend")
    sent = await send(resend)

    with pytest.raises(Failed, match="may only send") as caught:
        await resend.look_up(TOKEN, sent.notification_id)

    assert caught.value.error_class is FailureClass.AUTH_DENIED
    await channels.close()


@pytest.mark.contract("C-43")
@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 404, "body": "<html>404</html>"},
        {"kind": "status", "status": 404, "message": "The requested endpoint does not exist"},
        {"kind": "status", "status": 404, "json": {"message": "Email not found"}},
        {"kind": "status", "status": 410},
        {"kind": "forbidden"},
        {"kind": "html"},
        {"kind": "status", "status": 200, "json": {"id": "another"}},
        {"kind": "server_error"},
        {"kind": "drop"},
    ],
    ids=str,
)
async def test_any_other_answer_to_a_lookup_is_a_failure_and_no_absence(
    resend: Channel, emulator: Emulator, fault: dict[str, Any]
) -> None:
    emulator.faults.add(provider="resend", method="GET", **fault)

    with pytest.raises(Failed):
        await resend.look_up(TOKEN, "mail_1")


async def test_without_an_id_there_is_nothing_to_look_up(resend: Channel, emulator: Emulator) -> None:
    with pytest.raises(EffectUncertain):
        await resend.look_up(TOKEN, None)
    with pytest.raises(EffectUncertain):
        await resend.look_up(TOKEN, "../domains")
    assert emulator.calls == []


@pytest.mark.contract("C-52")
@pytest.mark.parametrize("kind", ["drop", "forbidden", "html", "conflict"])
async def test_no_failure_and_no_repr_tells_the_address_or_the_key(
    resend: Channel, emulator: Emulator, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    emulator.faults.add(kind, **POST)
    caplog.set_level("DEBUG")

    failed, _ = await failure(resend)

    told = f"{failed!r} {failed.__context__!r} {failed.__cause__!r} {resend!r} {message_to(TO)!r} {caplog.text}"
    assert failed.__context__ is None
    assert not [word for word in (TO, KEY, "Befunde") if word in told]
