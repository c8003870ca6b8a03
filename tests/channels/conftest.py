"""The emulated Resend, receiver of webhooks and mail server, and channels that lead to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest

from penstock.channels.port import Message
from penstock.channels.registry import Channels
from penstock.emulator import Emulator
from penstock.settings import load_settings

SENDER = "Prüfer & Söhne <reviews@example.org>"
KEY = "re_full_access"


@pytest.fixture(scope="module")
def _emulator() -> Iterator[Emulator]:
    with Emulator(mail=True) as started:
        yield started


@pytest.fixture
def emulator(_emulator: Emulator) -> Emulator:
    """Empty, and without faults."""
    _emulator.reset()
    return _emulator


def channels_to(emulator: Emulator, **overrides: Any) -> Channels:
    """Every channel, all of them leading to the emulator."""
    host, port = emulator.smtp_address
    settings: dict[str, Any] = {
        "mail_from": SENDER,
        "resend_api_key": KEY,
        "resend_url": emulator.resend_url,
        "smtp_host": host,
        "smtp_port": port,
        "smtp_tls": "off",
        "webhook_secret": emulator.webhook_secret,
        "webhook_allow": "127.0.0.0/8",
    }
    return Channels(load_settings(**settings | overrides))


@pytest.fixture
async def channels(emulator: Emulator) -> AsyncIterator[Channels]:
    made = channels_to(emulator)
    yield made
    await made.close()


def token_of(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def message_to(address: str, **changes: Any) -> Message:
    """A message with everything in it that is hard to send."""
    given: dict[str, Any] = {
        "token": token_of("one"),
        "subject": "Zwölf Befunde\r\nBcc: everybody@example.com",
        "text": "Grüße\n.\n--=_not a boundary\n\ud83d und noch etwas\n",
        "html": "<p>Grüße &amp; <b>mehr</b></p>",
        "data": {"review": {"b": "ö", "a": [1, 2]}},
        "written_at": datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC),
    }
    return Message(address=address, **given | changes)
