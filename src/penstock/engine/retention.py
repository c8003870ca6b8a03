"""Retention: what has been kept long enough goes, a small set at a time (C-67).

How long finished jobs and their keys stay is the type's policy; audit, spend,
runs, batches, attempts, skips and alerts go by the settings, and never sooner
than `penstock.retention` says, which only operators write (C-68). Kept whatever
their age: a job whose dead letter is not resolved, the original of a replay
that is still there, an alert that nobody has acknowledged, an effect in doubt.
The audit outlives its job.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from penstock.contract.errors import PenstockError
from penstock.store import retention as store
from penstock.store.transactions import begun
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.settings import Settings
    from penstock.store.claims import Db

T = TypeVar("T")
Progress = Callable[[str, int], None]  # what, removed so far


async def prune(db: Db, settings: Settings, progress: Progress | None = None) -> dict[str, int]:
    """Remove everything that is past its time; returns how many rows of each kind.

    Each set commits by itself: it can be stopped anywhere and begun again, and
    two at once only share the work. A lost connection is the caller's to see.
    """
    if begun(db):
        raise PenstockError("retention commits set by set; give it a pool, or a connection without a transaction")
    removed: dict[str, int] = {}
    audit = timedelta(days=settings.keep_audit_days)
    runs, alerts = timedelta(days=settings.keep_runs_days), timedelta(days=settings.keep_alerts_days)
    await _report_held(db, {"audit": audit, "runs": runs, "alerts": alerts})

    def tell(what: str, count: int) -> None:
        removed[what] = removed.get(what, 0) + count
        if progress is not None and count:
            progress(what, removed[what])

    await _found("jobs", lambda: store.finished_jobs(db), lambda some: store.prune_jobs(db, some), tell)
    await _found("effects", lambda: store.forgotten_effects(db), lambda some: store.prune_effects(db, some), tell)
    await _found("audit", lambda: store.old_audit(db, audit), lambda some: store.prune_audit(db, some, audit), tell)
    for what, keep in (
        ("dead_letters", audit), ("attempts", runs), ("runs", runs), ("skips", runs), ("workers", runs),
        ("alerts", alerts), ("batches", runs), ("spend", audit), ("operator_events", audit), ("keys", None),
        ("rates", None),
    ):  # fmt: skip
        await _old(db, what, keep, tell)
    for what, count in removed.items():
        if count:
            events.rows_pruned(what, count)
    return removed


async def _report_held(db: Db, asked: Mapping[str, timedelta]) -> None:
    """Say which settings ask for less than what is stored: the stored spans rule until an operator changes them."""
    stored = await store.spans(db)
    for what, keep in asked.items():
        if what in stored and keep < stored[what]:
            events.retention_held(what, keep.days, stored[what].days)


async def _found(
    what: str,
    look: Callable[[], Awaitable[list[T]]],
    remove: Callable[[Sequence[T]], Awaitable[int]],
    tell: Progress,
) -> None:
    """Look, remove what was found in sets, and look again; a look whose finds all stayed ends it."""
    while True:
        found = await look()
        gone = 0
        for start in range(0, len(found), store.SET):
            count = await remove(found[start : start + store.SET])
            tell(what, count)
            gone += count
        if gone == 0:
            tell(what, 0)
            return


async def _old(db: Db, what: str, keep: timedelta | None, tell: Progress) -> None:
    """Remove set after set until one comes out short."""
    while True:
        count = await store.prune_old(db, what, keep)
        tell(what, count)
        if count < store.SET:
            return
