"""What each channel would send of one review, as digests: run in two processes, it has to say the same twice."""

from __future__ import annotations

import hashlib
import json

from penstock.channels.registry import Channels
from penstock.settings import Settings
from tests.apps.review.messages.support import told

SETTINGS = {
    "mail_from": "Reviews <reviews@example.org>",
    "resend_api_key": "re_0123456789",
    "smtp_host": "mail.example.org",
    "webhook_secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
}


def digests() -> dict[str, str]:
    """By channel, with the token."""
    channels, message = Channels(Settings.model_validate(SETTINGS)), told()
    composed = {kind: channels.get(kind).compose(message) for kind in ("resend", "smtp", "webhook")}
    return {"token": message.token} | {kind: hashlib.sha256(each).hexdigest() for kind, each in composed.items()}


if __name__ == "__main__":
    print(json.dumps(digests()))  # noqa: T201 - for whoever started this process
