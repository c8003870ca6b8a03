"""A recorder of statements and of calls to providers, in the order in which they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    from uuid import UUID

    import pytest

CALLS = ("execute", "fetch", "fetchrow", "fetchval")


class Recorder:
    """Every statement with its arguments, and what the fake channels add to *events*."""

    def __init__(self, events: list[Any]) -> None:
        self.events = events

    def attach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on every connection of the driver is listened to."""
        for name in CALLS:
            monkeypatch.setattr(asyncpg.Connection, name, self._listening(getattr(asyncpg.Connection, name)))

    def about(self, delivery_id: UUID) -> list[str]:
        """The calls to providers, and the statements that name this delivery."""
        return [
            event if isinstance(event, str) else event[0]
            for event in self.events
            if isinstance(event, str) or delivery_id in event[1]
        ]

    def _listening(self, original: Any) -> Any:
        async def call(connection: Any, query: str, *arguments: Any, **options: Any) -> Any:
            self.events.append((query, arguments))
            return await original(connection, query, *arguments, **options)

        return call
