"""The public face: declare types, enqueue, work."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.contract.errors import EnqueueRefused, PenstockError
from penstock.contract.keys import stored_key, uuid7, uuid7_many
from penstock.contract.payloads import encode
from penstock.contract.policies import Policy
from penstock.engine.pokes import Pokes
from penstock.engine.registry import JobType, Registry
from penstock.engine.worker import Worker
from penstock.settings import Notify, Settings, load_settings
from penstock.store import connect, jobs
from penstock.store import types as type_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    import asyncpg

    from penstock.store.claims import Transaction

BULK = 5000  # rows per statement of a bulk enqueue


class Penstock:
    """An application: its types, its settings and its connections.

    Use it as an async context manager, or call `open` and `close`. With no
    DSN given the embedded server is started.
    """

    def __init__(self, dsn: str | None = None, *, settings: Settings | None = None, **overrides: Any) -> None:
        if settings is None:
            settings = load_settings(**({"dsn": dsn} if dsn is not None else {}), **overrides)
        self.settings = settings
        self.types = Registry()
        self._dsn = dsn or settings.dsn
        self._pool: asyncpg.Pool[Any] | None = None
        self._pokes: Pokes | None = None

    # ------------------------------------------------------------------ types

    def job(
        self, name: str, *, args: Any = None, log_ids: Sequence[str] = (), **policy: Any
    ) -> Callable[[Callable[..., Any]], JobType]:
        """Declare a type of one stage by its handler; the keywords are the fields of `Policy`."""

        def declare(handler: Callable[..., Any]) -> JobType:
            job_type = JobType(Policy(name, **policy), log_ids=log_ids)
            job_type.stage(job_type.policy.stages[0], args=args)(handler)
            return self.types.add(job_type)

        return declare

    def type(self, name: str, *, log_ids: Sequence[str] = (), **policy: Any) -> JobType:
        """Declare a type of several stages; give each its handler with `.stage(name)`."""
        return self.types.add(JobType(Policy(name, **policy), log_ids=log_ids))

    # ------------------------------------------------------------- connections

    async def open(self) -> Self:
        """Connect; starts the embedded server when there is no DSN."""
        if self._pool is None:
            self._pool = await connect.create_pool(
                await self.dsn(), size=self.settings.pool_max, prepared=self.settings.prepared_statements
            )
            self._pokes = Pokes(self._pool, self.settings.poke_ms / 1000)
        return self

    async def close(self) -> None:
        """Send the last pokes and disconnect."""
        pool, self._pool = self._pool, None
        if pool is not None:
            if self._pokes is not None:
                await self._pokes.flush()
            await pool.close()

    async def dsn(self) -> str:
        """The DSN in use."""
        if self._dsn is None:
            from penstock.embedded import ensure_started  # noqa: PLC0415 - optional, and slow to start

            server = await asyncio.to_thread(ensure_started, self.settings.home)
            self._dsn = server.url()
        return self._dsn

    @property
    def pool(self) -> asyncpg.Pool[Any]:
        """The open pool."""
        if self._pool is None:
            raise PenstockError("the application is not open; use `async with app:` or `await app.open()` first")
        return self._pool

    async def __aenter__(self) -> Self:
        """Open."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    async def sync_types(self) -> None:
        """Write the policies of all types to the database, so that SQL callers can enqueue them."""
        await self.open()
        await type_store.sync(self.pool, [job_type.policy for job_type in self.types])

    # ----------------------------------------------------------------- enqueue

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A transaction of the application; jobs enqueued on it are poked after it has committed."""
        await self.open()
        async with self.pool.acquire() as connection:
            waiting: list[tuple[str, str]] = []
            _WAITING[id(connection)] = waiting
            try:
                async with connection.transaction():
                    yield connection
            finally:
                del _WAITING[id(connection)]
            for channel, job_type in waiting:
                self._poke(channel, job_type)

    async def enqueue(
        self,
        job_type: str | JobType,
        payload: Any = None,
        *,
        key: str | None = None,
        run_at: datetime | None = None,
        delay: timedelta | float | None = None,
        priority: int | None = None,
        limit_key: str | None = None,
        connection: Any = None,
    ) -> UUID:
        """Enqueue one job and return its id; a known *key* returns the job it has (C-65).

        With *connection* the job belongs to the caller's transaction. Nothing
        is written when anything about the job is wrong.
        """
        job = self._new_job(job_type, payload, key, run_at, delay, priority, limit_key)
        if connection is None:
            if self._pool is None:
                await self.open()
            put = await self._put_typed(job, job_type)
            if put.created and put.channel is not None:
                self._poke(put.channel, job.job_type)
            return put.job_id
        from penstock.engine.callers import enqueue_on  # noqa: PLC0415 - only for callers with a connection

        return await enqueue_on(self, connection, job)

    async def enqueue_many(
        self,
        job_type: str | JobType,
        payloads: Iterable[Any],
        *,
        keys: Sequence[str | None] | None = None,
        run_at: datetime | None = None,
        delay: timedelta | float | None = None,
        priority: int | None = None,
        limit_keys: Sequence[str | None] | None = None,
        connection: Transaction | None = None,
    ) -> list[UUID]:
        """Enqueue many jobs of one type, all or nothing; one id per payload, in order."""
        name = job_type.name if isinstance(job_type, JobType) else job_type
        limits = self._payload_limits(name)
        texts = [encode(payload if payload is not None else {}, **limits) for payload in payloads]
        stored = None if keys is None else [None if key is None else stored_key(name, key) for key in keys]
        for what, given in (("keys", keys), ("limit_keys", limit_keys)):
            if given is not None and len(given) != len(texts):
                raise EnqueueRefused(
                    f"{what} has {len(given)} entries for {len(texts)} payloads; give one each, or None"
                )
        due = _due(run_at, delay)
        if connection is not None:
            return await self._put_many(connection, name, texts, stored, due, priority, limit_keys)
        async with self.transaction() as tx:
            ids = await self._put_many(tx, name, texts, stored, due, priority, limit_keys)
        return ids

    def _new_job(
        self,
        job_type: str | JobType,
        payload: Any,
        key: str | None,
        run_at: datetime | None,
        delay: timedelta | float | None,
        priority: int | None,
        limit_key: str | None,
    ) -> jobs.NewJob:
        name = job_type.name if isinstance(job_type, JobType) else job_type
        if run_at is not None or delay is not None:
            _due(run_at, delay)
        return jobs.NewJob(
            name,
            encode(payload if payload is not None else {}, **self._payload_limits(name)),
            uuid7(),
            None if key is None else stored_key(name, key),
            run_at,
            timedelta(seconds=delay) if isinstance(delay, int | float) else delay,
            priority,
            limit_key,
        )

    def _payload_limits(self, name: str) -> dict[str, int]:
        declared = (
            self.types.get(name).policy.max_payload_bytes if name in self.types else self.settings.payload_max_bytes
        )
        return {"max_bytes": declared, "max_depth": self.settings.payload_max_depth}

    async def _put_typed(self, job: jobs.NewJob, job_type: str | JobType) -> jobs.Put:
        """Put a job in; a type declared here that the database has not met yet is announced first."""
        from penstock.contract.errors import UnknownType  # noqa: PLC0415 - a rare path

        try:
            return await jobs.put(self.pool, job)
        except UnknownType:
            if job.job_type not in self.types:
                raise
        await type_store.sync(self.pool, [self.types.get(job.job_type).policy])
        return await jobs.put(self.pool, job)

    async def _put_many(
        self,
        tx: Transaction,
        name: str,
        texts: list[str],
        keys: list[str | None] | None,
        due: datetime | None,
        priority: int | None,
        limit_keys: Sequence[str | None] | None,
    ) -> list[UUID]:
        if name in self.types:
            await type_store.sync(self.pool, [self.types.get(name).policy])
        ids: list[UUID] = []
        new = uuid7_many(len(texts))
        for start in range(0, len(texts), BULK):
            part = slice(start, start + BULK)
            count = len(texts[part])
            answers = await jobs.put_many(
                tx,
                name,
                new[part],
                texts[part],
                keys=None if keys is None else keys[part],
                run_ats=[due] * count,
                priority=priority,
                limit_keys=[None] * count if limit_keys is None else list(limit_keys[part]),
            )
            ids.extend(job_id for job_id, _ in answers)
        return ids

    def _poke(self, channel: str, job_type: str) -> None:
        if self.settings.notify is not Notify.OFF and self._pokes is not None:
            self._pokes.send(channel, job_type)

    # -------------------------------------------------------------------- work

    def worker(self, types: Sequence[str] | None = None, *, dsn: str | None = None, **options: Any) -> Worker:
        """A worker for *types*, or for all of them; call `await worker.run()`."""
        chosen = list(self.types) if types is None else [self.types.get(name) for name in types]
        target = dsn or self._dsn
        if target is None:
            raise PenstockError("open the application before making a worker on the embedded server")
        return Worker(target, chosen, self.settings, **options)


_WAITING: dict[int, list[tuple[str, str]]] = {}


def _due(run_at: datetime | None, delay: timedelta | float | None) -> datetime | None:
    if run_at is not None and delay is not None:
        raise EnqueueRefused("give run_at or delay, not both")
    if run_at is not None and run_at.tzinfo is None:
        raise EnqueueRefused("run_at has no time zone; use an aware datetime, such as datetime.now(UTC)")
    if delay is None:
        return run_at
    span = timedelta(seconds=delay) if isinstance(delay, int | float) else delay
    if span < timedelta(0):
        raise EnqueueRefused(f"delay is negative ({span}); leave it out to run at once")
    return datetime.now(UTC) + span
