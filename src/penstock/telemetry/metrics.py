"""The metrics of D §6, with their labels, over prometheus-client.

Counts are added in sets, once per flush, as a worker finishes thousands of
jobs in a second. With PROMETHEUS_MULTIPROC_DIR set (the supervisor does it)
the processes of one worker share their numbers through files, one per slot: a
process that follows a dead one in its slot counts on where that one ended.

The sixth metric, `job_queue_depth`, is asked of the database at each scrape:
see `exposition`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Histogram, values

if TYPE_CHECKING:
    from collections.abc import Iterable

SLOT: Final = "PENSTOCK_SLOT"
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)


def _slot_files() -> None:
    """Name the shared files by slot instead of process; a fork gets files of its own."""
    slot, process = os.environ.get(SLOT), os.getpid()
    if slot and os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        values.ValueClass = values.MultiProcessValue(  # type: ignore[no-untyped-call]  # it has no types
            lambda: slot if os.getpid() == process else f"{slot}-{os.getpid()}"
        )


_slot_files()

claimed_total = Counter("job_claimed_total", "Jobs claimed", ["job_type", "worker_id"])
completed_total = Counter("job_completed_total", "Jobs that ended, by outcome", ["job_type", "status"])
processing_seconds = Histogram("job_processing_seconds", "Time in the handler", ["job_type"], buckets=BUCKETS)
notification_received_total = Counter("job_notification_received_total", "Pokes received", ["channel"])
batch_items_total = Counter("job_batch_items_total", "Items of provider batches, by outcome", ["job_type", "outcome"])
poll_scanned_total = Counter("job_poll_scanned_total", "Fallback polls, the startup scan included")


def claimed(job_type: str, worker_id: str, count: int) -> None:
    """*count* jobs of a type were claimed."""
    claimed_total.labels(job_type, worker_id).inc(count)


def ended(job_type: str, status: str, count: int) -> None:
    """*count* jobs ended with `success`, `failed` or `dead` (C-02)."""
    completed_total.labels(job_type, status).inc(count)


def processed(job_type: str, seconds: Iterable[float]) -> None:
    """The time that handlers took."""
    observe = processing_seconds.labels(job_type).observe
    for value in seconds:
        observe(value)


def notified(channel: str) -> None:
    """One poke arrived."""
    notification_received_total.labels(channel).inc()


def polled() -> None:
    """One pass of the fallback poll (C-54)."""
    poll_scanned_total.inc()


def item_ended(job_type: str, outcome: str) -> None:
    """One item of a batch has its end."""
    batch_items_total.labels(job_type, outcome).inc()
