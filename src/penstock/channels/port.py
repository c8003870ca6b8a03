"""The port of every channel: send once under a token, and say honestly what can be found out about it later.

A channel is asked in this order: `compose` freezes what will be sent, `send`
sends those very bytes under a token, `look_up` tells whether a send has
happened. What it can find out differs, so it declares it (C-42). Failures are
`Failed` with a class of the closed list. A send that has certainly not
happened raises `NotPerformed` from it; any other failed send is in doubt. It
speaks of that one call: an earlier call in doubt stays in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class Settles(StrEnum):
    """How a channel can settle whether a message was taken."""

    LOOKUP_BY_TOKEN = "lookup_by_token"  # noqa: S105 - a word, no secret
    LOOKUP_BY_ID = "lookup_by_id"
    IDEMPOTENT_REPLAY = "idempotent_replay"  # the same bytes under the same key get the first one's id, for a while


class WhenUncertain(StrEnum):
    """What is done about a send in doubt on a channel that can settle nothing."""

    SEND_AGAIN = "send_again"  # the receiver knows it by its id
    HOLD = "hold"  # a person decides


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody is told, before a channel has made bytes of it."""

    address: str = field(repr=False)
    token: str
    subject: str = field(repr=False)
    text: str = field(repr=False)
    html: str = field(repr=False)
    data: dict[str, object] = field(repr=False)  # the same, for a machine; what a webhook carries
    written_at: datetime  # fixed when the message is composed, so that a second composing gives the same bytes


@dataclass(frozen=True, slots=True)
class Receipt:
    """A provider has taken the message."""

    notification_id: str
    at: datetime | None = None


class Channel(Protocol):
    """One way to tell somebody something."""

    @property
    def kind(self) -> str:
        """The name of the channel, as recipients name it."""

    @property
    def settles(self) -> frozenset[Settles]:
        """What can be found out about a send in doubt; empty: nothing, and the receiver must know the id again."""

    @property
    def window(self) -> timedelta | None:
        """How long after the first send an idempotent replay is safe."""

    @property
    def when_uncertain(self) -> WhenUncertain:
        """What is done about a doubt that cannot be settled."""

    def checked(self, address: str) -> str:
        """*address*, if this channel can reach it at all; else `RecipientInvalid`, which does not repeat it."""

    def compose(self, message: Message) -> bytes:
        """The bytes to send; the same message gives the same bytes in every process."""

    async def send(self, address: str, token: str, payload: bytes) -> Receipt:
        """Send *payload* under *token*."""

    async def look_up(self, token: str, notification_id: str | None) -> Receipt | None:
        """What the provider knows of it; None only when it says, to a key that may read, that there is nothing."""

    async def close(self) -> None:
        """Give every connection back."""
