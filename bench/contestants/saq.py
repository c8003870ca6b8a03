"""SAQ on its PostgreSQL queue. Of 20, 100 and 300 jobs at a time, 300 was fastest in both of two passes."""

# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator,no-any-unimported"
# The peer may be missing or untyped where the types are checked.

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from saq import Queue, Worker

from bench.contestant import Contestant, Duty, run

CONCURRENCY: Final = 300
SENDERS: Final = 20


class SaqClient:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    async def one(self, number: int) -> None:
        await self._queue.enqueue("noop", n=number)

    wake = one

    async def many(self, numbers: Sequence[int], *, less_urgent: bool = False) -> None:
        for start in range(0, len(numbers), SENDERS):  # it has no bulk call
            await asyncio.gather(*(self.one(n) for n in numbers[start : start + SENDERS]))


class Saq(Contestant):
    name = "saq"
    distribution = "saq"
    share = 0.1
    pending = "select exists (select from saq_jobs where status not in ('complete', 'failed', 'aborted'))"

    async def setup(self, dsn: str) -> None:
        queue = Queue.from_url(dsn)
        await queue.connect()
        await queue.disconnect()

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncIterator[SaqClient]:
        queue = Queue.from_url(dsn)
        await queue.connect()
        try:
            yield SaqClient(queue)
        finally:
            await queue.disconnect()

    def work(self, duty: Duty) -> None:
        run(_work(duty))


async def _work(duty: Duty) -> None:
    async def noop(_: Any, *, n: int) -> None:
        duty.region.ran(n)

    queue = Queue.from_url(duty.dsn)
    await queue.connect()
    await Worker(queue, [("noop", noop)], concurrency=CONCURRENCY).start()


contestant = Saq()
