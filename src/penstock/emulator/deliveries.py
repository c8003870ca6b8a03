"""What the emulated channels have delivered: to whom, under which token, how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message that somebody would have got. A second one of the same token is a duplicate."""

    channel: str
    token: str
    identity: str  # the id that the sender was told, or chose
    address: str = field(repr=False)
    body: bytes = field(repr=False)
    at: float


class Known(NamedTuple):
    """What an idempotency key stands for."""

    body: bytes
    identity: str
    at: float


class Deliveries:
    """Every message, oldest first."""

    def __init__(self) -> None:
        self._all: list[Delivery] = []
        self.keys: dict[str, Known] = {}  # of resend

    def __iter__(self) -> Iterator[Delivery]:
        return iter(list(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def add(self, delivery: Delivery) -> None:
        """Somebody gets it."""
        self._all.append(delivery)

    def find(self, channel: str, identity: str) -> Delivery | None:
        """The message of this id."""
        return next((each for each in list(self._all) if (each.channel, each.identity) == (channel, identity)), None)

    def count(self, token: str) -> int:
        """How often the message of this token was delivered."""
        return sum(each.token == token for each in list(self._all))

    def by_token(self, channel: str | None = None) -> dict[str, int]:
        """How often each message was delivered."""
        return dict(Counter(each.token for each in list(self._all) if channel in {None, each.channel}))

    def lose(self, token: str) -> int:
        """Forget what was delivered under *token*, as a provider that never had it; how many there were."""
        kept = [each for each in self._all if each.token != token]
        lost = len(self._all) - len(kept)
        self._all = kept
        self.keys.pop(token, None)
        return lost

    def clear(self) -> None:
        """Forget everything."""
        self._all.clear()
        self.keys.clear()
