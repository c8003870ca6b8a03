"""What one stream has told and what it still has to tell.

A change is stamped when its statement begins and seen when its transaction
commits, so changes do not come to light in the order of their times. Each look
therefore begins a while before the newest change told, and what was told is
remembered for as long. A change in a transaction that takes longer than that
is told with the next change of the same request, or to the next stream.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from penstock.apps.rewrite.statuses import changes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from penstock.apps.rewrite.statuses import PublicStatus
    from penstock.store.claims import Transaction

OVERLAP: Final = timedelta(minutes=5)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
SNAPSHOT: Final = 500  # requests that a new stream begins with, the newest ones
MOST: Final = 5000  # changes that one look can find


class Watch:
    """The memory of one stream: the newest change told, and all told within the overlap."""

    def __init__(self, home_id: UUID, last_event: int | None = None) -> None:
        self._home = home_id
        self._first_limit = SNAPSHOT if last_event is None else MOST
        self._mark = EPOCH if last_event is None else EPOCH + last_event * MICROSECOND
        self._told: dict[UUID, tuple[datetime, str]] = {}

    async def first(self, connection: Transaction) -> bytes:
        """Everything that is now, or everything since the event that the caller saw last."""
        return self._tell(await changes(connection, self._home, self._mark - OVERLAP, self._first_limit))

    async def more(self, connection: Transaction) -> bytes:
        """What has changed and was not told; nothing is an empty answer."""
        events = self._tell(await changes(connection, self._home, self._mark - OVERLAP, MOST))
        self._forget()
        return events

    def _tell(self, found: Iterable[PublicStatus]) -> bytes:
        events = []
        for status in found:
            seen = (status.changed_at, str(status.status))
            if self._told.get(status.rewrite_request_id) != seen:
                self._told[status.rewrite_request_id] = seen
                self._mark = max(self._mark, status.changed_at)
                events.append(event("status", public(status), (self._mark - EPOCH) // MICROSECOND))
        return b"".join(events)

    def _forget(self) -> None:
        horizon = self._mark - OVERLAP
        self._told = {request: seen for request, seen in self._told.items() if seen[0] >= horizon}


def public(status: PublicStatus) -> dict[str, str | None]:
    """All that a frontend may know of a request: four members (Q-05, C-56)."""
    completed = status.completed_at
    return {
        "rewrite_request_id": str(status.rewrite_request_id),
        "status": str(status.status),
        "completed_at": None if completed is None else completed.astimezone(UTC).isoformat(),
        "failure_code": status.failure_code,
    }


def event(name: str, data: object, last: int | None = None) -> bytes:
    """One Server-Sent Event; *last* is what a caller sends back to go on from here."""
    number = "" if last is None else f"id: {last}\n"
    return f"event: {name}\n{number}data: {json.dumps(data)}\n\n".encode()
