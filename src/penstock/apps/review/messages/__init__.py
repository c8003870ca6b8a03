"""What people are told about a review: plain text, HTML and data, the same bytes every time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.apps.review.messages.data import data_of
from penstock.apps.review.messages.markup import html_of
from penstock.apps.review.messages.plain import text_of
from penstock.apps.review.messages.summary import Head, summary_of
from penstock.channels.port import Message

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from penstock.apps.review.models import Facts, Finding, Recipient, Skipped

__all__ = ["Head", "render"]


def render(
    review: Head,
    facts: Facts,
    findings: Iterable[Finding],
    skipped: Iterable[Skipped] = (),
    dropped: int = 0,
    *,
    recipient: Recipient,
    token: str,
    written_at: datetime,
    parts: int = 1,
) -> Message:
    """What *recipient* is told of *review*. *parts*: how many questions the critic was asked; 0: nothing to look at.

    No clock, no random number and no order of rows has a part in it: whoever
    renders the same review again gets the same message (N-10).
    """
    told = summary_of(review, facts, findings, skipped, dropped, parts=parts)
    return Message(
        address=recipient.address,
        token=token,
        subject=told.subject,
        text=text_of(told),
        html=html_of(told),
        data=data_of(told, written_at),
        written_at=written_at,
    )
