"""Announcing alerts: one log line each, and every sink that the application has registered (R-14).

Alerts are rows first, written in the transaction of what they are about, so
none is lost in a crash. Some worker takes each of them, tells the log and the
sinks, and marks it; a worker killed in between leaves it to the next, so a
sink may hear of an alert twice and never not at all.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.texts import clean_text
from penstock.store import alerts as store
from penstock.store.alerts import Alert, Severity, find
from penstock.telemetry import events
from penstock.telemetry.redaction import opaque_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.store.claims import Db

__all__ = ["Alert", "Severity", "Sink", "acknowledge", "announce", "find", "raise_alert"]

Sink = Callable[[Alert], Awaitable[None] | None]
SINK_SECONDS: Final = 10.0
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
