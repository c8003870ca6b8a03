"""`/metrics`: what one worker, or all processes of one supervisor, have counted.

`job_queue_depth` is a fact of the database, not of a process, so it is asked
there when somebody scrapes. Counting a long queue takes a while; the answer is
kept for as long as that may cost a twentieth of one connection's time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Final

from prometheus_client import REGISTRY, CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from penstock.contract.errors import CannotListen
from penstock.store import connect, jobs
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from threading import Thread
    from wsgiref.simple_server import WSGIServer

    from prometheus_client import Metric

DEPTH: Final = "job_queue_depth"
SHORTEST: Final = 1.0  # seconds that a count of the queue is kept, at the least
SHARE: Final = 20  # and so many times as long as it took
SLOW: Final = 30.0


class Depths:
    """The depth of each type's queue, asked of the database now and then; two scrapes at once ask once."""

    def __init__(self, dsn: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._dsn = dsn
        self._clock = clock
        self._known: Mapping[str, int] = {}
        self._until = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> Mapping[str, int]:
        """The newest count; empty while the database is away, so that the other metrics still come."""
        with self._lock:
            asked = self._clock()
            if asked >= self._until:
                self._known = self._count()
                now = self._clock()
                self._until = now + max(SHORTEST, SHARE * (now - asked))
            return self._known

    def _count(self) -> Mapping[str, int]:
        try:
            return asyncio.run(self._ask())
        except connect.AWAY as error:
            events.database_away("depths", type(error).__name__, SHORTEST)
            return {}

    async def _ask(self) -> dict[str, int]:
        async with asyncio.timeout(SLOW):
            connection = await connect.connect(self._dsn, name="penstock metrics", prepared=False)
            try:
                return await jobs.depths(connection)
            finally:
                await connection.close()


class Exposed(Collector):
    """The counters of *source*, and the depths."""

    def __init__(self, source: Collector, depths: Callable[[], Mapping[str, int]]) -> None:
        self._source = source
        self._depths = depths

    def collect(self) -> Iterable[Metric]:
        """Everything that a scrape shows."""
        depth = GaugeMetricFamily(DEPTH, "Jobs that are queued, due or not", labels=["job_type"])
        for job_type, count in self._depths().items():
            depth.add_metric([job_type], count)
        yield depth
        yield from self._source.collect()

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before it is collected."""
        return []


def serve(host: str, port: int, dsn: str, shared: Path | None = None) -> tuple[WSGIServer, Thread]:
    """Answer scrapes in a thread; *shared* is the folder that the processes of a supervisor write to."""
    source: Collector = REGISTRY if shared is None else _shared(shared)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Exposed(source, Depths(dsn)))
    try:
        served = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise CannotListen(
            f"/metrics cannot be served on {host}:{port} ({error.strerror}); choose another --metrics-port"
        ) from None
    events.metrics_served(host, port)
    return served


def _shared(folder: Path) -> Collector:
    """What the files of all slots say together."""
    files: Collector = MultiProcessCollector(None, path=str(folder))  # type: ignore[no-untyped-call]  # it has no types
    return files
