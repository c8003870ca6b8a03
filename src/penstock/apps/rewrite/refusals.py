"""Why a message is not taken. Nothing was written then, and no word of it is repeated.

PenstockError
└── RewriteRefused             the message was not taken; `code` is one of the words below
    ├── TextRefused            text_empty, text_too_long, text_unreadable
    ├── RecipientRefused       recipient_missing, recipient_many, recipient_stranger, recipient_is_sender
    ├── SenderRefused          sender_stranger, home_unknown
    ├── FieldRefused           surface_unknown, reveal_delay_invalid, idempotency_key_invalid
    └── IdempotencyConflict    idempotency_conflict

A failure after the message was taken is no refusal: its request is there,
failed, and the caller is told `rewrite_unavailable` (R-23).
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.apps.rewrite.models import LONGEST_MESSAGE, Surface
from penstock.contract.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_DELAY: Final = timedelta(days=366)
LONGEST_KEY: Final = 200
WHY: Final[Mapping[str, str]] = {
    "text_empty": "the message has nothing in it to rewrite; write something",
    "text_too_long": f"the message is longer than {LONGEST_MESSAGE} characters; shorten it",
    "text_unreadable": "the message is no text, or holds a NUL or half a surrogate pair; send it as valid UTF-8",
    "recipient_missing": "the message mentions nobody; mention the one person it is for",
    "recipient_many": "the message mentions several people; send one message to each of them",
    "recipient_stranger": "the person mentioned is no member of this home",
    "recipient_is_sender": "sender and recipient are the same person; mention somebody else",
    "sender_stranger": "the sender is no member of this home",
    "home_unknown": "there is no such home, or it was erased",
    "surface_unknown": f"the surface must be one of {', '.join(Surface)}",
    "reveal_delay_invalid": f"the delay until the reveal must lie between 0 and {LONGEST_DELAY.days} days",
    "idempotency_key_invalid": f"an idempotency key has 1 to {LONGEST_KEY} printable ASCII characters",
    "idempotency_conflict": "this idempotency key was used before with another message; use a new key for it",
}
_UNREADABLE: Final = re.compile("[\\x00\\ud800-\\udfff]")


class RewriteRefused(PenstockError):
    """The message was not taken: nothing was written, nobody was asked."""

    def __init__(self, code: str) -> None:
        super().__init__(WHY[code])
        self.code = code


class TextRefused(RewriteRefused):
    """The text itself cannot be taken."""


class RecipientRefused(RewriteRefused):
    """There is not exactly one recipient who is another member of the home (L-06)."""


class SenderRefused(RewriteRefused):
    """The sender has no part in this home, or there is no home."""


class FieldRefused(RewriteRefused):
    """Something beside the text is wrong."""


class IdempotencyConflict(RewriteRefused):
    """The key is known with another message."""

    def __init__(self) -> None:
        super().__init__("idempotency_conflict")


def checked_text(text: object) -> str:
    """*text*, if it can be stored and there is something in it."""
    if not isinstance(text, str) or _UNREADABLE.search(text):
        raise TextRefused("text_unreadable")
    if len(text) > LONGEST_MESSAGE:
        raise TextRefused("text_too_long")
    if not any(character.isprintable() and not character.isspace() for character in text):
        raise TextRefused("text_empty")
    return text


def only_recipient(user_ids: object, sender: UUID) -> UUID:
    """The one person who is mentioned, however often (L-06)."""
    given = list(user_ids) if isinstance(user_ids, list | tuple | set | frozenset) else []
    if not given:
        raise RecipientRefused("recipient_missing")
    if not all(isinstance(user_id, UUID) for user_id in given):
        raise RecipientRefused("recipient_stranger")
    mentioned: set[UUID] = set(given)
    if len(mentioned) > 1:
        raise RecipientRefused("recipient_many")
    if sender in mentioned:
        raise RecipientRefused("recipient_is_sender")
    return mentioned.pop()


def checked_surface(surface: object) -> Surface:
    """One of the three surfaces (Q-21)."""
    try:
        return Surface(str(surface))
    except ValueError:
        raise FieldRefused("surface_unknown") from None


def checked_delay(delay: object) -> timedelta | None:
    """A delay that lies ahead, and not beyond everybody's patience."""
    if delay is None:
        return None
    if not isinstance(delay, timedelta) or not timedelta(0) <= delay <= LONGEST_DELAY:
        raise FieldRefused("reveal_delay_invalid")
    return delay


def checked_key(key: object) -> str | None:
    """A key that fits its column and a header."""
    if key is None:
        return None
    if not (isinstance(key, str) and key.isascii() and key.isprintable() and 1 <= len(key) <= LONGEST_KEY):
        raise FieldRefused("idempotency_key_invalid")
    return key
