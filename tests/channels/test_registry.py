"""The registry: a channel where the settings have one, else what to set."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.channels import registry
from penstock.channels.port import Channel, Settles
from penstock.channels.registry import KINDS, Channels
from penstock.channels.resend import Resend
from penstock.channels.smtp import Server, Smtp
from penstock.channels.webhook import Webhook
from penstock.contract.errors import Failed, RecipientInvalid
from penstock.contract.failures import FailureClass
from penstock.settings import load_settings

SECRET = "whsec_" + "QUJD" * 11
ALL: list[Channel] = [
    Resend(api_key="re_x", sender="a@example.org", url="https://api.resend.com"),
    Smtp(Server("localhost", 25, "off"), sender="a@example.org"),
    Webhook(secret=SECRET),
]


@pytest.mark.contract("C-42")
@pytest.mark.parametrize("channel", ALL, ids=lambda channel: channel.kind)
def test_a_channel_that_settles_nothing_has_no_window_and_a_policy(channel: Channel) -> None:
    assert channel.kind in KINDS
    assert (channel.window is not None) is (Settles.IDEMPOTENT_REPLAY in channel.settles)
    assert channel.when_uncertain


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("resend", {}, "set PENSTOCK_RESEND_API_KEY and PENSTOCK_MAIL_FROM"),
        ("resend", {"resend_api_key": "re_x"}, "the channel resend is off; set PENSTOCK_MAIL_FROM"),
        ("smtp", {"mail_from": "a@example.org"}, "the channel smtp is off; set PENSTOCK_SMTP_HOST"),
        ("webhook", {}, "the channel webhook is off; set PENSTOCK_WEBHOOK_SECRET"),
        ("pigeon", {}, "there is no channel of that name; there are resend, smtp, webhook"),
    ],
)
def test_a_channel_that_is_off_says_what_to_set(kind: str, settings: dict[str, Any], words: str) -> None:
    channels = Channels(load_settings(**settings))

    with pytest.raises(Failed, match=words) as caught:
        channels.get(kind)

    assert caught.value.error_class is FailureClass.CONFIG_INVALID
    assert channels.problem(kind) == caught.value.why


def test_a_missing_package_is_named_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda _name: None)

    problem = Channels(load_settings(webhook_secret=SECRET)).problem("webhook")

    assert problem == "the channel webhook needs its packages; install penstock[review]"


async def test_a_channel_is_made_once_and_anew_after_closing() -> None:
    channels = Channels(load_settings(webhook_secret=SECRET))

    first = channels.get("webhook")
    same = channels.get("webhook")
    await channels.close()

    assert first is same
    assert channels.get("webhook") is not first


def test_addresses_are_checked_without_the_secrets_of_the_channel() -> None:
    channels = Channels(load_settings(webhook_allow="10.0.0.0/8"))

    assert channels.checked("resend", " a@example.org ") == "a@example.org"
    assert channels.checked("smtp", "a@example.org") == "a@example.org"
    assert channels.checked("webhook", "http://10.0.0.1/x") == "http://10.0.0.1/x"
    for kind, address in (("smtp", "nobody"), ("webhook", "https://127.0.0.1/"), ("pigeon", "a@example.org")):
        with pytest.raises(RecipientInvalid):
            channels.checked(kind, address)


def test_a_channel_of_a_test_stands_in_for_any() -> None:
    channels = Channels(load_settings())
    channels.use("smtp", ALL[1])

    assert channels.get("smtp") is ALL[1]
    assert channels.checked("smtp", "a@example.org") == "a@example.org"


def test_nothing_shows_a_secret() -> None:
    settings = load_settings(
        mail_from="a@example.org",
        resend_api_key="re_canary",
        smtp_host="localhost",
        smtp_username="canary",
        smtp_password="canary",  # noqa: S106 - searched for below
        webhook_secret=SECRET,
    )
    channels = Channels(settings)

    shown = f"{channels!r} {[channels.get(kind) for kind in KINDS]!r}"

    assert "canary" not in shown
    assert SECRET not in shown
