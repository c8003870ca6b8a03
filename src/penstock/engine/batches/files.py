"""What a provider keeps of a batch: its input and its results, deleted once they are read, and on erasure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from penstock.contract.calls import Route
from penstock.contract.classify import Failure
from penstock.engine.batches import polling
from penstock.engine.batches.recovery import SKEW
from penstock.engine.patience import persist
from penstock.providers.port import BatchState, Phase
from penstock.store import batch_items as store
from penstock.store import spend
from penstock.telemetry import item_events as events

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from penstock.engine.app import Penstock
    from penstock.engine.batches.asking import Adapters
    from penstock.providers.port import BatchAdapter
    from penstock.settings import Settings
    from penstock.store.connect import Pool, Record

AT_ONCE: Final = 50  # batches whose files one run deletes
AGAIN: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Erased:
    """What became of the files of some jobs' batches."""

    deleted: int
    waiting: int  # batches that are still at their provider, or could not be cleared: the collector goes on


async def delete_files(pool: Pool, adapters: Adapters, job_type: str, settings: Settings) -> int:
    """Delete the files of batches of *job_type* that are over; what fails is tried again, and somebody is told."""
    found = await persist(
        "files", lambda: store.with_files(pool, job_type, delete_files=settings.batch_delete_files, limit=AT_ONCE)
    )
    return sum([await _delete(pool, adapters, row) for row in found])


async def erase_batches(app: Penstock, job_ids: Sequence[UUID]) -> Erased:
    """Delete what providers keep of these jobs' batches, whatever the setting says: their home is being erased.

    A batch that is not over yet cannot lose its input; its files go as soon as
    it is collected. Cancel the jobs first, so that its results are dropped.
    """
    asked = await store.ask_erasure(app.pool, job_ids)
    deleted = 0
    for job_type in {row["job_type"] for row in asked if row["state"] in ("collected", "abandoned")}:
        while batches := await store.with_files(app.pool, job_type, delete_files=False, limit=AT_ONCE):
            deleted += sum([await _delete(app.pool, app.adapters, row) for row in batches])
    return Erased(deleted, len(asked) - deleted)


async def _delete(pool: Pool, adapters: Adapters, row: Record) -> bool:
    batch_id: UUID = row["batch_id"]
    done = await polling.asked(_discard(adapters, row))
    if not isinstance(done, Failure) or polling.is_missing(done):
        await persist("files", lambda: store.files_deleted(pool, batch_id))
        events.batch_files_deleted(batch_id)
        return True
    code = str(done.error_class)
    events.batch_files_stayed(batch_id, code)
    await persist("files", lambda: store.files_stayed(pool, batch_id, AGAIN))
    if not done.retryable:
        await spend.alert_once(pool, "batch_files_stayed", {"batch_id": str(batch_id)}, {"code": code})
    return False


async def _discard(adapters: Adapters, row: Record) -> None:
    route = Route(row["provider"], row["model"], row["adapter"], row["base_url"] or None)
    adapter = cast("BatchAdapter", adapters.get(route))
    if row["state"] == "collected":
        files = {name: row[name] for name in ("input_file_id", "output_file_id", "error_file_id")}
        await adapter.discard(BatchState(row["provider_batch_id"], Phase.COMPLETED, "collected", **files))
    if row["input_file_id"] is None:  # nobody has saved its id: the input is found by its name
        await adapter.discard_input(row["batch_id"], row["created_at"] - SKEW)
