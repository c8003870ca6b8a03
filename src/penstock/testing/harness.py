"""The harness: an application, a database, workers by name and a clock, for one test."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.keys import stored_key
from penstock.store import inspection, schema
from penstock.testing.clock import Clock
from penstock.testing.doomed import die_at
from penstock.testing.inline import InlineWorker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    import asyncpg

    from penstock.contract.crash import CrashPoint
    from penstock.engine.app import Penstock
    from penstock.engine.worker import Worker
    from penstock.store.claims import Transaction

ROUNDS: Final = 1000  # a job that comes back at once for ever would keep a test busy for ever
FIRST: Final = "harness"


class Harness:
    """Runs an application's jobs inside a test.

    *dsn* is the owner's, so that the clock can be wound; without it the
    application's own is used. One worker named `harness` serves every type;
    `worker(name)` opens more. Leaving the block closes the workers and puts
    the clock right.

    A jittered backoff waits for its upper bound here, so that a retry is never
    due by chance; *jitter* draws otherwise, from 0 to 1.
    """

    def __init__(
        self,
        app: Penstock,
        dsn: str | None = None,
        *,
        concurrency: int = 10,
        insecure: bool = True,
        jitter: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.app = app
        self._dsn = dsn
        self._jitter = jitter
        self._concurrency = concurrency
        self._insecure = insecure
        self._workers: dict[str, InlineWorker] = {}

    async def __aenter__(self) -> Self:
        """Connect, and make the application's types known to the database."""
        self._named = self.app.named_dsn
        if self._dsn is not None:
            self.app.use_dsn(self._dsn)
        await self.app.open()
        try:
            await schema.require_current(self.app.pool)
            await self.app.sync_types()
        except BaseException:
            await self.app.close()
            raise
        self.clock = Clock(self.connection)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the workers, put the clock right, disconnect."""
        try:
            for worker in self._workers.values():
                await worker.close()
            await self.clock.reset()
        finally:
            await self.app.close()
            if self._named is not None:
                self.app.use_dsn(self._named)

    # ------------------------------------------------------------------- work

    async def enqueue(self, job_type: Any, payload: Any = None, **options: Any) -> UUID:
        """`app.enqueue`."""
        return await self.app.enqueue(job_type, payload, **options)

    async def drain(self, worker: str = FIRST) -> int:
        """Run everything that is due now, and what that makes due at once; returns how many claims it took.

        Expired leases are reaped first. Jobs that wait for their time, a retry's
        backoff included, keep waiting.
        """
        hand = await self.worker(worker)
        total = 0
        for _ in range(ROUNDS):
            taken = await hand.work()
            total += taken
            if taken == 0:
                return total
        raise AssertionError(f"still not drained after {ROUNDS} rounds and {total} claims; a job keeps coming back")

    async def work_until_idle(self, worker: str = FIRST) -> int:
        """Run everything, winding the clock to each due time, until no job waits for its time."""
        total = await self.drain(worker)
        names = [job_type.name for job_type in self.app.types]
        for _ in range(ROUNDS):
            async with self.connection() as db:
                span = await inspection.until_next_due(db, names)
            if span is None:
                return total
            await self.pass_time(max(span, timedelta(0)) + timedelta(milliseconds=1))
            total += await self.drain(worker)
        raise AssertionError(f"still not idle after {ROUNDS} due times; a job keeps asking for a later one")

    async def pass_time(self, span: timedelta | None = None, **units: float) -> None:
        """Let time pass for the database and all workers: `pass_time(minutes=5)`."""
        await self.clock.pass_time(span, **units)

    async def worker(
        self, name: str = FIRST, *, types: Sequence[str] | None = None, dsn: str | None = None, **options: Any
    ) -> InlineWorker:
        """The inline worker of this name, opened when it is first asked for."""
        if name not in self._workers:
            chosen = list(self.app.types) if types is None else [self.app.types.get(t) for t in types]
            settings = {"concurrency": self._concurrency, "insecure": self._insecure, **options}
            made = InlineWorker(dsn or await self.app.dsn(), chosen, self.app.settings, name=name, **settings)
            await made.open()
            made.place.random = self._jitter
            self._workers[name] = made
        return self._workers[name]

    async def crash(self, worker: str = FIRST) -> None:
        """The worker is gone without a word; `drain` later opens another of its name once its heartbeat is old."""
        await self._workers.pop(worker).crash()

    async def work_and_die(self, point: CrashPoint, *, passages: int = 1, name: str = "doomed") -> None:
        """Let a worker in a process of its own run what is due, and kill it at *point* with -9.

        Its claims stay until their leases are over: `pass_time`, then `drain`.
        What its handlers change in memory is lost with it.
        """
        await die_at(point, passages, lambda: self._work_alone(name))

    async def _work_alone(self, name: str) -> None:
        self.app._producer = None  # noqa: SLF001 - the connections of the parent are not this process's to use
        self._workers.clear()
        await (await self.worker(name)).work()

    @asynccontextmanager
    async def running(
        self, name: str = "running", types: Sequence[str] | None = None, **options: Any
    ) -> AsyncIterator[Worker]:
        """A whole worker with its listener and its loop, ready when the block begins and stopped when it ends."""
        worker = self.app.worker(types, name=name, insecure=self._insecure, **options)
        task = asyncio.create_task(worker.run())
        ready = asyncio.create_task(worker.ready.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        try:
            if task.done():
                await task
            yield worker
        finally:
            worker.stop()
            await task

    # ------------------------------------------------------------------- look

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Transaction]:
        """A connection to look around with: the one that enqueued a moment ago, where another had to be opened."""
        producer = await self.app._open_producer()  # noqa: SLF001 - the harness is the application's own
        async with producer.connection() as connection:
            yield connection

    async def job(self, job_id: UUID) -> asyncpg.Record:
        """The job's row."""
        async with self.connection() as db:
            return await inspection.job(db, job_id)

    async def status(self, job_id: UUID) -> str:
        """The job's status."""
        return str((await self.job(job_id))["status"])

    async def events(self, job_id: UUID) -> list[tuple[str | None, str]]:
        """The moves of an audited job: (from, to), oldest first."""
        return [(row["from_status"], row["to_status"]) for row in await self.trail(job_id)]

    async def trail(self, job_id: UUID) -> list[asyncpg.Record]:
        """The whole audit rows of a job."""
        async with self.connection() as db:
            return await inspection.trail(db, job_id)

    async def dead_letters(self) -> list[asyncpg.Record]:
        """Every dead letter, oldest first."""
        async with self.connection() as db:
            return await inspection.dead_letters(db)

    async def enqueued(
        self,
        job_type: str,
        payload: Any = None,
        *,
        key: str | None = None,
        status: str | None = None,
        count: int | None = None,
    ) -> list[asyncpg.Record]:
        """Assert that jobs of *job_type* were enqueued, and return them in order.

        *payload* need only be a part of what a job carries. Without *count* one
        job or more must be there; `count=0` asserts that there is none.
        """
        wanted = None if payload is None else json.dumps(payload)
        stored = None if key is None else stored_key(job_type, key)
        async with self.connection() as db:
            found = await inspection.jobs_like(db, job_type, payload=wanted, key=stored, status=status)
        if (count is None and not found) or (count is not None and len(found) != count):
            expected = "at least one job" if count is None else f"{count} jobs"
            of_type = len(await inspection.jobs_like(self.app.pool, job_type))
            raise AssertionError(
                f"expected {expected} of type {job_type!r} as described, found {len(found)} (of {of_type} of that type)"
            )
        return found
