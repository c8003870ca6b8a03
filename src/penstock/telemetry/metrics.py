"""The metrics of D §6, with their labels, over prometheus-client.

Counts are added in sets, once per flush, as a worker finishes thousands of
jobs in a second. With PROMETHEUS_MULTIPROC_DIR set (the supervisor does it)
the processes of one worker share their numbers through files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)

queue_depth = Gauge("job_queue_depth", "Jobs that are queued, due or not", ["job_type"], multiprocess_mode="mostrecent")
claimed_total = Counter("job_claimed_total", "Jobs claimed", ["job_type", "worker_id"])
completed_total = Counter("job_completed_total", "Jobs that ended, by outcome", ["job_type", "status"])
processing_seconds = Histogram("job_processing_seconds", "Time in the handler", ["job_type"], buckets=BUCKETS)
notification_received_total = Counter("job_notification_received_total", "Pokes received", ["channel"])
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


def depths(by_type: Mapping[str, int]) -> None:
    """How many jobs of each type are queued."""
    for job_type, depth in by_type.items():
        queue_depth.labels(job_type).set(depth)
