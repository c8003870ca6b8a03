"""The functions that come with Penstock: the reaper and retention."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.engine.cadences import Cadence
from penstock.engine.functions import Function, RunHandle
from penstock.engine.reaper import reap
from penstock.engine.retention import prune
from penstock.store import runs

if TYPE_CHECKING:
    from penstock.store.connect import Pool

REAPER_EVERY: Final = timedelta(minutes=5)  # workers and runs reap too; this is for when there are none
RETENTION_EVERY: Final = timedelta(hours=1)


async def _reaper(run: RunHandle) -> None:
    count = await reap(run.pool)
    run.count(claimed=count, requeued=count)


async def _expired(pool: Pool) -> int:
    return await runs.expired(pool)


async def _retention(run: RunHandle) -> None:
    removed = sum((await prune(run.pool, run.settings)).values())
    run.count(claimed=removed, succeeded=removed)


FUNCTIONS: Final = (
    Function("reaper", call=_reaper, pending=_expired, cadence=Cadence(every=REAPER_EVERY)),
    Function("retention", call=_retention, cadence=Cadence(every=RETENTION_EVERY)),
)
