"""DBOS Transact: one workflow per job, its queue polled every 100 ms (the default is a second).

Of 30, 100 and 300 workflows at a time 30 was slower; two passes could not tell the other two apart.
"""

# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator,no-any-unimported"
# The peer may be missing or untyped where the types are checked.

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions

from bench.board import Region
from bench.contestant import TYPE, Contestant, Duty

POLL: Final = 0.1
CONCURRENCY: Final = 100
SENDERS: Final = 20
_OPTIONS: Final = EnqueueOptions(queue_name="default", workflow_name=TYPE)
_region: list[Region] = []


def _url(dsn: str) -> str:
    return dsn.replace("postgresql://", "postgresql+psycopg://")


def _config(dsn: str) -> DBOSConfig:
    return DBOSConfig(name="bench", system_database_url=_url(dsn), log_level="WARNING", application_version="1")


async def _noop(n: int) -> None:
    _region[0].ran(n)


def _launch(dsn: str) -> None:
    DBOS(config=_config(dsn))
    DBOS.workflow(name=TYPE)(_noop)
    DBOS.launch()
    DBOS.register_queue("default", worker_concurrency=CONCURRENCY, polling_interval_sec=POLL)


class DbosClient:
    def __init__(self, client: DBOSClient) -> None:
        self._client = client

    async def one(self, number: int) -> None:
        await self._client.enqueue_async(_OPTIONS, number)

    wake = one

    async def many(self, numbers: Sequence[int], *, less_urgent: bool = False) -> None:
        for start in range(0, len(numbers), SENDERS):  # it has no bulk call
            await asyncio.gather(*(self.one(n) for n in numbers[start : start + SENDERS]))


class Dbos(Contestant):
    name = "dbos"
    distribution = "dbos"
    share = 0.05
    pending = "select exists (select from dbos.workflow_status where status in ('ENQUEUED', 'PENDING'))"

    async def setup(self, dsn: str) -> None:
        await asyncio.to_thread(_launch, dsn)
        await asyncio.to_thread(DBOS.destroy)

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncIterator[DbosClient]:
        client = DBOSClient(system_database_url=_url(dsn))
        try:
            yield DbosClient(client)
        finally:
            client.destroy()

    def work(self, duty: Duty) -> None:
        _region.append(duty.region)
        _launch(duty.dsn)
        threading.Event().wait()


contestant = Dbos()
