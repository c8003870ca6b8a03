"""Announcing alerts: one log line each, and every sink that the application has registered (R-14).

Alerts are rows first, written in the transaction of what they are about, so
none is lost in a crash. Some worker takes each of them, tells the log and the
sinks, and marks it; a worker killed in between leaves it to the next, so a
sink may hear of an alert twice and never not at all.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.texts import clean_text
from penstock.engine.parts import Parts
from penstock.store import alerts as store
from penstock.store import connect
from penstock.store.alerts import Alert, Severity, find
from penstock.telemetry import events
from penstock.telemetry.redaction import opaque_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.store.claims import Db

__all__ = ["Alert", "Announcer", "Severity", "Sink", "acknowledge", "announce", "find", "raise_alert"]

Sink = Callable[[Alert], Awaitable[None] | None]
SINK_SECONDS: Final = 10.0
LOOK_EVERY: Final = 30.0  # seconds between looks without a poke: for alerts raised while nobody listened
NAME_LIMIT: Final = 200


async def raise_alert(db: Db, kind: str, severity: Severity, subject: Mapping[str, Any]) -> int:
    """Raise an alert about *subject*: ids and codes. What could be text is hashed."""
    safe = {
        name: value if value is None or isinstance(value, bool) else opaque_id(value) for name, value in subject.items()
    }
    return await store.raise_alert(db, kind, severity, safe)


async def acknowledge(db: Db, alert_id: int, *, who: str) -> bool:
    """Say that *who* has seen an alert; False when somebody had before."""
    return await store.acknowledge(db, alert_id, who=clean_text(who.strip() or "unknown", NAME_LIMIT))


async def announce(db: Db, sinks: Sequence[Sink] = ()) -> int:
    """Tell the log and *sinks* of every alert not yet announced; returns how many were.

    An alert whose sink fails is offered again by the next call, a few times.
    """
    count, last = 0, 0
    while True:
        async with store.next_unannounced(db, last) as held:
            if held is None:
                return count
            tx, alert = held
            events.alert_raised(alert.alert_id, alert.kind, alert.severity, alert.subject)
            told = [await _tell(sink, alert) for sink in sinks]
            await store.announced(tx, alert.alert_id, by_all=all(told))
        last = alert.alert_id
        count += all(told)


async def _tell(sink: Sink, alert: Alert) -> bool:
    try:
        async with asyncio.timeout(SINK_SECONDS):
            answer = sink(alert)
            if inspect.isawaitable(answer):
                await answer
    except Exception as error:
        events.alert_sink_failed(alert.alert_id, getattr(sink, "__qualname__", "sink"), type(error).__name__)
        return False
    return True


class Announcer:
    """Announces in the background of a worker: at once when poked, now and then when not."""

    def __init__(self, db: Db, sinks: Sequence[Sink]) -> None:
        self._db = db
        self._sinks = sinks
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._looked = float("-inf")
        self._parts = Parts(lambda _part, _error: None)  # the next poke, or the next look without one, starts it again

    def poke(self) -> None:
        """There is an alert; a poke during a look makes it look again."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = self._parts.start(self._look(), "announcer")

    def look_now_and_then(self) -> None:
        """Look if the last look is a while ago."""
        if time.monotonic() - self._looked >= LOOK_EVERY:
            self.poke()

    async def close(self) -> None:
        """Let a look come to its end."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _look(self) -> None:
        while self._again:
            self._again = False
            self._looked = time.monotonic()
            try:
                await announce(self._db, self._sinks)
            except connect.AWAY as error:
                events.database_away("alerts", type(error).__name__, LOOK_EVERY)
