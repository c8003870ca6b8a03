"""A channel whose abilities can be switched, and whose provider counts what it has really delivered."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from penstock import Failed, FailureClass, NotPerformed
from penstock.channels.port import Message, Receipt, Settles, WhenUncertain

Hook = Callable[[], Awaitable[None]]
LOOKUP = frozenset({Settles.LOOKUP_BY_TOKEN})
BY_ID = frozenset({Settles.LOOKUP_BY_ID})
REPLAY = frozenset({Settles.IDEMPOTENT_REPLAY})
NOTHING: frozenset[Settles] = frozenset()


def certain(error_class: FailureClass) -> NotPerformed:
    """A refusal that says for certain that nothing was sent."""
    error = NotPerformed("nobody has taken the message")
    error.__cause__ = Failed(error_class)
    return error


@dataclass
class Provider:
    """One channel and its provider in one. `delivered` is what recipients have got, by token.

    *script* holds what the next sends meet, from the left: an exception is
    raised instead of sending; `lost` is delivered and its reply is lost.
    """

    kind: str = "smtp"
    settles: frozenset[Settles] = LOOKUP
    window: timedelta | None = None
    when_uncertain: WhenUncertain = WhenUncertain.HOLD
    events: list[str] = field(default_factory=list)
    script: deque[Exception | str] = field(default_factory=deque)
    refused: dict[str, Exception] = field(default_factory=dict)  # by address
    deaf: Exception | None = None  # raised when looked up
    before: Hook | None = None  # called at every send, before anything is delivered …
    after: Hook | None = None  # … and afterwards, before the reply
    delivered: Counter[str] = field(default_factory=Counter)
    sent: list[tuple[str, str, bytes]] = field(default_factory=list)  # every call: address, token, payload
    looked_up: list[tuple[str, str | None]] = field(default_factory=list)

    def checked(self, address: str) -> str:
        return address

    def compose(self, message: Message) -> bytes:
        return f"{message.written_at.isoformat()}\n{message.subject}\n{message.text}".encode()

    async def send(self, address: str, token: str, payload: bytes) -> Receipt:
        self.events.append(f"send {token}")
        self.sent.append((address, token, payload))
        if self.before is not None:
            await self.before()
        met = self.refused.get(address) or (self.script.popleft() if self.script else None)
        if isinstance(met, Exception):
            raise met
        if Settles.IDEMPOTENT_REPLAY not in self.settles or not self.delivered[token]:
            self.delivered[token] += 1
        if self.after is not None:
            await self.after()
        if met == "lost":
            raise Failed(FailureClass.NETWORK_TIMEOUT)
        return self.receipt(token)

    async def look_up(self, token: str, notification_id: str | None) -> Receipt | None:
        self.events.append(f"look_up {token}")
        self.looked_up.append((token, notification_id))
        if self.deaf is not None:
            raise self.deaf
        return self.receipt(token) if self.delivered[token] else None

    def receipt(self, token: str) -> Receipt:
        """Its id for a message."""
        return Receipt(f"{self.kind}-{token[:8]}")

    async def close(self) -> None: ...
