"""Settling submissions in doubt, before anything else in every run of a lane (C-36).

A submission is in doubt when its intent is committed, its provider's id is
not, and nobody alive has it in hand. The provider is asked for it by its
token. Found: the jobs are marked as the submitter would have done. Found
twice: one is kept, the others are cancelled. Absent for longer than a fresh
batch may be missing from the provider's lists: the jobs go back, no attempt
used. Whenever the provider cannot be asked, or cannot tell yet, nothing
changes, and after a while a person is told.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, cast

from penstock.contract.calls import Route
from penstock.contract.classify import classify
from penstock.contract.errors import EffectUncertain, Failed
from penstock.contract.failures import FailureClass
from penstock.engine.alerts import Severity, raise_alert
from penstock.engine.batches.sending import LATEST, taken_of
from penstock.store import connect, submissions
from penstock.telemetry import batch_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.batches.asking import Adapters
    from penstock.providers.port import BatchAdapter, Created
    from penstock.store.claims import Db
    from penstock.store.submissions import Unsettled

AT_ONCE: Final = 50
LEASE: Final = timedelta(minutes=10)
SKEW: Final = timedelta(minutes=10)  # between the provider's clock and ours
WATCH: Final = timedelta(minutes=5)  # after which a submission that was given up is looked for again
PATIENCE: Final = timedelta(hours=1)  # after which a person hears of a doubt
LONG_PATIENCE: Final = timedelta(hours=26)  # where only an ended batch shows whose it is
LONGEST: Final = 120.0  # seconds for one look
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class Recovered:
    """What one recovery has come to, in submissions."""

    found: int = 0
    absent: int = 0
    waiting: int = 0
    orphans: int = 0  # turned up after they had been given up, and cancelled


async def recover(db: Db, adapters: Adapters, job_type: str, *, recovery: str) -> Recovered:
    """Settle what can be settled of *job_type*; *recovery* names this run and no other."""
    settled = Recovered()
    for batch in await submissions.adopt(db, job_type, recovery=recovery, lease=LEASE, limit=AT_ONCE):
        outcome, code = await _settle(db, adapters, batch, recovery)
        setattr(settled, outcome, getattr(settled, outcome) + 1)
        batch_events.batch_recovered(batch.batch_id, job_type, batch.item_count, outcome, code)
    for batch in await submissions.watched(db, job_type, limit=AT_ONCE):
        settled.orphans += await _cancel_orphans(db, adapters, batch)
    return settled


async def _settle(db: Db, adapters: Adapters, batch: Unsettled, recovery: str) -> tuple[str, str | None]:
    try:
        adapter, found = await _look(adapters, batch)
        kept = await _keep_one(adapter, found)
    except EffectUncertain:  # asked, but not to be told before other batches have ended (C-66)
        return await _leave(db, batch, recovery, None, LONG_PATIENCE)
    except Exception as error:  # whatever it is, it says nothing about the batch
        return await _leave(db, batch, recovery, str(classify(error, idempotent=True).error_class))
    if kept is not None:
        return await _adopt(db, adapter, batch, kept, len(found), recovery)
    if await submissions.missing(db, batch.batch_id, recovery=recovery, grace=adapter.limits.grace):
        await submissions.abandon(db, batch.batch_id, recovery=recovery, watch=WATCH)
        return "absent", None
    return await _leave(db, batch, recovery, None)


async def _adopt(
    db: Db, adapter: BatchAdapter, batch: Unsettled, kept: Created, found: int, recovery: str
) -> tuple[str, str | None]:
    try:
        await submissions.mark(db, batch.batch_id, taken_of(adapter, kept), recovery=recovery)
    except connect.AWAY:
        raise
    except Exception as error:  # such as an id that another batch has: one riddle must not stop the lane
        return await _leave(db, batch, recovery, str(classify(error).error_class))
    if found > 1:
        await raise_alert(db, "batch_found_twice", Severity.ALERT, {"batch_id": batch.batch_id, "found": found})
    return "found", None


async def _leave(
    db: Db, batch: Unsettled, recovery: str, code: str | None, patience: timedelta = PATIENCE
) -> tuple[str, str | None]:
    await submissions.leave(db, batch.batch_id, recovery=recovery, code=code, patience=patience)
    return "waiting", code


async def _look(adapters: Adapters, batch: Unsettled) -> tuple[BatchAdapter, list[Created]]:
    """Ask the provider; an empty list is its word that there is none."""
    adapter = adapters.get(Route(batch.provider, batch.model, batch.adapter, batch.base_url or None))
    if adapter.limits is None:
        raise Failed(FailureClass.CONFIG_INVALID)
    asked = cast("BatchAdapter", adapter)
    async with asyncio.timeout(LONGEST):
        return asked, await asked.find(batch.batch_id, batch.created_at - SKEW, batch.created_at + LATEST + SKEW)


async def _keep_one(adapter: BatchAdapter, found: Sequence[Created]) -> Created | None:
    """The oldest that nobody has cancelled; the others are cancelled first, so that a crash leaves the same choice."""
    kept, *others = sorted(found, key=_worth) or (None,)
    for other in others:
        if other is not None:
            await _cancel(adapter, other)
    return kept


def _worth(one: Created) -> tuple[bool, datetime, str]:
    return one.cancelled, one.created_at or _NEVER, one.provider_batch_id


async def _cancel_orphans(db: Db, adapters: Adapters, batch: Unsettled) -> int:
    """Cancel what has turned up of a submission that was given up; its jobs are long in another batch."""
    try:
        adapter, found = await _look(adapters, batch)
        for one in found:
            await _cancel(adapter, one)
    except Exception as error:  # the next look may fare better
        code = str(classify(error, idempotent=True).error_class)
        batch_events.batch_recovered(batch.batch_id, "", batch.item_count, "watching", code)
        return 0
    if not found:
        return 0
    await submissions.orphaned(db, batch.batch_id, found[0].provider_batch_id)
    return 1


async def _cancel(adapter: BatchAdapter, one: Created) -> None:
    if not one.cancelled and not one.ended:
        async with asyncio.timeout(LONGEST):
            await adapter.cancel(one.provider_batch_id)
