"""Reviews to tell people about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from penstock.apps.review.messages import render
from penstock.apps.review.models import ChannelKind, Facts, Finding, Recipient, Severity, Skipped
from penstock.channels.port import Message
from penstock.contract.keys import token

REVIEW = UUID("01957e2a-0000-7000-8000-000000000001")
WRITTEN = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Asked:
    """What was asked for."""

    review_id: UUID = REVIEW
    changelist_id: str = "shop:3f2a91c"
    review_version: int = 1
    label: str | None = None


FACTS = Facts(title="Give every cart a mean", author="Ada", url="https://git.example/shop/3f2a91c?a=1&b=2")
ADA = Recipient(channel=ChannelKind.SMTP, address="ada@example.org")


def finding(**changes: Any) -> Finding:
    said = {"file": "shop/cart.py", "line": 9, "severity": "major", "message": "An empty cart divides by zero."}
    return Finding.model_validate({**said, **changes})


FINDINGS = (
    finding(suggestion="if not self.items:\n\treturn 0"),
    finding(line=2, severity=Severity.NOTE, message="This import is not used."),
    finding(file="shop/api.py", line=40, severity=Severity.CRITICAL, message="Anybody can read any cart. " * 4),
)
SKIPPED = (Skipped(file="web/logo.png", reason="binary"), Skipped(file="old.py", reason="deleted"))


def told(asked: Asked | None = None, facts: Facts = FACTS, findings: Any = FINDINGS, **changes: Any) -> Message:
    review = asked or Asked()
    key = token(review.changelist_id, ADA.recipient, review.review_version)
    given = {"skipped": SKIPPED, "dropped": 2, "recipient": ADA, "token": key, "written_at": WRITTEN, **changes}
    return render(review, facts, findings, **given)
