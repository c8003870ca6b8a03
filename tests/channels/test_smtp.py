"""SMTP: the same mail to the byte, and a doubt only after the final dot."""

from __future__ import annotations

from email import message_from_bytes, policy
from typing import Any

import pytest

from penstock.channels.port import Channel, Receipt, WhenUncertain
from penstock.channels.registry import Channels
from penstock.channels.smtp import Server, Smtp
from penstock.contract.classify import classify
from penstock.contract.errors import EffectUncertain, Failed, NotPerformed
from penstock.contract.failures import FailureClass
from penstock.emulator import Emulator
from tests.channels.conftest import SENDER, channels_to, message_to, token_of

TO = "somebody@example.com"
TOKEN = token_of("one")


@pytest.fixture
def smtp(channels: Channels) -> Channel:
    return channels.get("smtp")


async def send(channel: Channel) -> Receipt:
    return await channel.send(TO, TOKEN, channel.compose(message_to(TO)))


async def failure(channel: Channel) -> tuple[Failed, bool]:
    """What a send fails of, and whether it is certain that no mail is out."""
    with pytest.raises((Failed, NotPerformed)) as caught:
        await send(channel)
    certain = isinstance(caught.value, NotPerformed)
    failed = caught.value.__cause__ if certain else caught.value
    assert isinstance(failed, Failed)
    return failed, certain


@pytest.mark.contract("C-42")
@pytest.mark.parametrize("policy", list(WhenUncertain))
async def test_it_can_settle_nothing_and_a_setting_says_what_is_done_about_a_doubt(
    emulator: Emulator, policy: WhenUncertain
) -> None:
    smtp = channels_to(emulator, smtp_when_uncertain=str(policy)).get("smtp")

    assert (smtp.settles, smtp.window, smtp.when_uncertain) == (frozenset(), None, policy)
    with pytest.raises(EffectUncertain):
        await smtp.look_up(TOKEN, "<x@example.org>")


@pytest.mark.contract("N-10")
async def test_two_composings_of_a_message_are_the_same_mail(smtp: Channel, emulator: Emulator) -> None:
    receipt = await send(smtp)

    [delivery] = emulator.deliveries
    mail = message_from_bytes(delivery.body, policy=policy.SMTP)
    assert channels_to(emulator).get("smtp").compose(message_to(TO)) == smtp.compose(message_to(TO))
    assert receipt.notification_id == mail["Message-ID"] == f"<{TOKEN}@example.org>"
    assert (mail["Date"], delivery.token) == ("Wed, 04 Mar 2026 05:06:07 +0000", TOKEN)
    assert (mail["From"], mail["To"]) == ('"Prüfer & Söhne" <reviews@example.org>', TO) or str(mail["From"]) == SENDER


async def test_a_mail_says_that_a_program_wrote_it_and_how_to_leave_without_a_link(smtp: Channel) -> None:
    mail = message_from_bytes(smtp.compose(message_to(TO)), policy=policy.SMTP)

    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["X-Auto-Response-Suppress"] == "All"
    assert mail["List-Unsubscribe"] == "<mailto:reviews@example.org?subject=unsubscribe>"


async def test_nothing_in_a_message_becomes_a_header_or_ends_the_mail(smtp: Channel, emulator: Emulator) -> None:
    await send(smtp)

    mail = message_from_bytes(next(iter(emulator.deliveries)).body, policy=policy.SMTP)
    text, html = (part.get_content() for part in mail.iter_parts())
    assert mail["Bcc"] is None
    assert mail["Subject"] == "Zwölf Befunde Bcc: everybody@example.com"
    assert text.replace("\r\n", "\n") == "Grüße\n.\n--=_not a boundary\n? und noch etwas\n"
    assert html.strip() == "<p>Grüße &amp; <b>mehr</b></p>"


async def test_a_text_that_holds_the_boundary_stays_one_text(smtp: Channel) -> None:
    evil = f"--=_{TOKEN[:40]}\nContent-Type: text/html\n\n<script>"

    mail = message_from_bytes(smtp.compose(message_to(TO, text=evil)), policy=policy.SMTP)

    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]


@pytest.mark.contract("C-42")
async def test_a_server_that_hangs_up_after_the_final_dot_leaves_a_doubt(smtp: Channel, emulator: Emulator) -> None:
    emulator.faults.add("drop_after", provider="smtp", method="DATA", nth=1)

    failed, certain = await failure(smtp)
    await send(smtp)

    assert (failed.error_class, certain) == (FailureClass.NETWORK_RESET, False)
    first, second = emulator.deliveries
    assert (first.identity, first.body) == (second.identity, second.body)


@pytest.mark.contract("N-22", "E-02", "E-07")
@pytest.mark.parametrize(
    ("method", "fault", "error_class", "retryable"),
    [
        ("MAIL", {"kind": "drop"}, FailureClass.NETWORK_RESET, True),
        ("RCPT", {"kind": "drop"}, FailureClass.NETWORK_RESET, True),
        ("MAIL", {"kind": "status", "status": 550}, FailureClass.CONFIG_INVALID, False),
        ("MAIL", {"kind": "status", "status": 530}, FailureClass.AUTH_DENIED, False),
        ("MAIL", {"kind": "status", "status": 451}, FailureClass.UPSTREAM_5XX, True),
        ("RCPT", {"kind": "status", "status": 550}, FailureClass.RECIPIENT_REJECTED, False),
        ("RCPT", {"kind": "status", "status": 554}, FailureClass.RECIPIENT_REJECTED, False),
        ("RCPT", {"kind": "status", "status": 450}, FailureClass.UPSTREAM_5XX, True),
        ("RCPT", {"kind": "status", "status": 421}, FailureClass.NETWORK_RESET, True),
        ("DATA", {"kind": "status", "status": 552}, FailureClass.PAYLOAD_REJECTED, False),
        ("DATA", {"kind": "status", "status": 554}, FailureClass.POLICY_REJECTED, False),
        ("DATA", {"kind": "status", "status": 571}, FailureClass.POLICY_REJECTED, False),
        ("DATA", {"kind": "status", "status": 451}, FailureClass.UPSTREAM_5XX, True),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else None,
)
async def test_a_refusal_has_its_class_and_no_mail_is_out(
    smtp: Channel, emulator: Emulator, method: str, fault: dict[str, Any], error_class: FailureClass, retryable: bool
) -> None:
    emulator.faults.add(provider="smtp", method=method, **fault)

    failed, certain = await failure(smtp)

    assert (failed.error_class, certain) == (error_class, True)
    assert classify(failed, idempotent=True).retryable is retryable
    assert len(emulator.deliveries) == 0


@pytest.mark.contract("E-07")
async def test_a_login_is_made_and_a_refused_one_is_no_fault_of_a_recipient(emulator: Emulator) -> None:
    smtp = channels_to(emulator, smtp_username="reviews", smtp_password="not for logs").get("smtp")  # noqa: S106
    await send(smtp)
    emulator.faults.add("unauthorized", provider="smtp", method="AUTH")

    failed, certain = await failure(smtp)

    assert [call.method for call in emulator.calls if call.status == 235] == ["AUTH"]
    assert (failed.error_class, certain) == (FailureClass.AUTH_DENIED, True)
    assert "not for logs" not in f"{smtp!r} {failed!r} {failed.__context__!r}"


@pytest.mark.contract("E-02")
async def test_where_nobody_listens_nothing_was_sent(emulator: Emulator) -> None:
    failed, certain = await failure(channels_to(emulator, smtp_port=1).get("smtp"))

    assert (failed.error_class, certain) == (FailureClass.NETWORK_RESET, True)


async def test_a_server_without_encryption_gets_no_mail_where_encryption_is_set(emulator: Emulator) -> None:
    failed, certain = await failure(channels_to(emulator, smtp_tls="starttls").get("smtp"))

    assert (failed.error_class, certain) == (FailureClass.CONFIG_INVALID, True)
    assert len(emulator.deliveries) == 0


@pytest.mark.parametrize("server", [Server("mail.example.org", 25, "off"), Server("10.0.0.1", 25, "off")])
def test_encryption_is_off_only_to_this_machine(server: Server) -> None:
    with pytest.raises(Failed, match="PENSTOCK_SMTP_TLS"):
        Smtp(server, sender="reviews@example.org")


@pytest.mark.parametrize("address", ["a@example.org>\r\nRCPT TO:<b@example.org", "a", "a@b c"])
async def test_what_is_no_address_never_reaches_the_server(smtp: Channel, emulator: Emulator, address: str) -> None:
    with pytest.raises(NotPerformed):
        await smtp.send(address, TOKEN, b"Subject: x\r\n\r\n")
    assert emulator.calls == []
