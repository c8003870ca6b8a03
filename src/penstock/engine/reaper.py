"""The reaper: ends claims whose lease has run out, whoever held them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.contract.crash import CrashPoint, passing
from penstock.store import claims as store
from penstock.telemetry import events, metrics

if TYPE_CHECKING:
    from penstock.store.claims import Db


async def reap(db: Db) -> int:
    """Return expired claims to the queue, or end their jobs when the budget is spent; returns how many."""
    total = 0
    passing(CrashPoint.BEFORE_REAP)
    while rows := await store.reap(db):
        total += len(rows)
        for row in rows:
            events.stale_claim_requeued(row["job_id"], row["job_type"], row["outcome"])
            if row["outcome"] == "failed":
                metrics.ended(row["job_type"], "dead", 1)
    if total:
        passing(CrashPoint.AFTER_REAP)
    return total
