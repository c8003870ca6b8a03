"""The enqueueing half of the public face: on our own connections, or inside a caller's transaction."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.contract.errors import UnknownType
from penstock.engine import callers, owned
from penstock.engine.drafts import Bulk, Drafts, when
from penstock.engine.portal import Portals, weak_opener
from penstock.engine.producer import Producer
from penstock.store.silence import bare, refuse_doubt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from penstock.engine.registry import JobType, Registry
    from penstock.settings import Settings
    from penstock.store.claims import Transaction
    from penstock.store.puts import NewJob

T = TypeVar("T")


class Enqueueing:
    """What `Penstock` can enqueue, and how."""

    settings: Settings
    types: Registry

    def __init__(self) -> None:
        self._drafts = Drafts(self.types, self.settings)
        self._producer: Producer | None = None
        self._opening = asyncio.Lock()
        self._portals = Portals(weak_opener(self))

    async def dsn(self) -> str:
        """The DSN in use."""
        raise NotImplementedError

    # -------------------------------------------------------------------- async

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A transaction of the application. Jobs enqueued in the block belong to it and are poked after its commit."""
        producer = await self._open_producer()
        async with producer.lend() as connection:
            committed = bare(connection)
            async with owned.owned(connection, self), owned.begun(connection):
                yield connection
            refuse_doubt(committed)

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
        attempts: int | None = None,
        connection: Any = None,
    ) -> UUID:
        """Enqueue one job and return its id; a known *key* returns the job it has (C-65).

        *attempts* lowers the budget of this one job below its type's.

        With *connection* (asyncpg, psycopg, an AsyncSession or AsyncConnection
        of SQLAlchemy), or inside `app.transaction()`, the job belongs to that
        transaction. Nothing is written when anything about the job is wrong,
        and the transaction stays good.
        """
        job = self._drafts.one(
            job_type, payload, key=key, limit_key=limit_key, when=when(run_at, delay, priority), attempts=attempts
        )
        if connection is None:
            connection = owned.current(self)
        try:
            return await self._put(job, connection)
        except UnknownType:  # declared here, and the database has not met it yet
            await (await self._open_producer()).announce(self.types.get(job.job_type).policy)
        return await self._put(job, connection)

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
        connection: Any = None,
    ) -> list[UUID]:
        """Enqueue many jobs of one type, all or nothing; one id per payload, in order.

        A known key, also one that came twice in *keys*, answers with the job
        it has.
        """
        bulk = self._drafts.many(
            job_type, payloads, keys=keys, limit_keys=limit_keys, when=when(run_at, delay, priority)
        )
        if connection is None:
            connection = owned.current(self)
        return await self._announcing(bulk.job_type, lambda: self._put_many(bulk, connection))

    async def _put(self, job: NewJob, connection: Any) -> UUID:
        if connection is None:
            return await (self._opened() or await self._open_producer()).put(job)
        return await callers.put(connection, job, self._poking())

    async def _put_many(self, bulk: Bulk, connection: Any) -> list[UUID]:
        if connection is None:
            return await (self._opened() or await self._open_producer()).put_many(bulk)
        return await callers.put_many(connection, list(bulk.sets()), self._poking())

    async def make_producer(self) -> Producer:
        """A producer with connections of its own, for the event loop that asks."""
        return await Producer.open(await self.dsn(), self.settings)

    async def _open_producer(self) -> Producer:
        async with self._opening:  # two tasks may ask at once
            producer = self._opened()
            if producer is None:
                producer = self._producer = await self.make_producer()
            return producer

    def _opened(self) -> Producer | None:
        """The open producer; one whose event loop has ended is of no more use."""
        if self._producer is not None and self._producer.loop.is_closed():
            self._producer = None
        return self._producer

    async def _announcing(self, name: str, put: Callable[[], Awaitable[T]]) -> T:
        """Put; a type that is declared here and that the database has not met yet is told to it first."""
        try:
            return await put()
        except UnknownType:
            await (await self._open_producer()).announce(self.types.get(name).policy)
        return await put()

    def _poking(self) -> callers.Poking:
        """An application that is not open has nothing to send with: the poke goes with the caller's commit."""
        producer = self._opened()
        if producer is None:
            return callers.Poking(self.settings.notify, None)
        return callers.Poking(self.settings.notify, producer.poke, producer.speak)

    # --------------------------------------------------------------------- sync

    def enqueue_sync(
        self,
        job_type: str | JobType,
        payload: Any = None,
        *,
        key: str | None = None,
        run_at: datetime | None = None,
        delay: timedelta | float | None = None,
        priority: int | None = None,
        limit_key: str | None = None,
        attempts: int | None = None,
        connection: Any = None,
    ) -> UUID:
        """`enqueue` for callers without an event loop.

        *connection* is one of psycopg, or a Session or Connection of SQLAlchemy.
        Without *connection* the job goes over connections of our own, which
        live in a thread of this process until `close_sync` or its end.
        """
        job = self._drafts.one(
            job_type, payload, key=key, limit_key=limit_key, when=when(run_at, delay, priority), attempts=attempts
        )
        if connection is None:
            return self._sync(job.job_type, lambda: self._portals.call(lambda producer: producer.put(job)))
        return self._sync(job.job_type, lambda: callers.put_sync(connection, job, self._poking_sync()))

    def enqueue_many_sync(
        self,
        job_type: str | JobType,
        payloads: Iterable[Any],
        *,
        keys: Sequence[str | None] | None = None,
        run_at: datetime | None = None,
        delay: timedelta | float | None = None,
        priority: int | None = None,
        limit_keys: Sequence[str | None] | None = None,
        connection: Any = None,
    ) -> list[UUID]:
        """`enqueue_many` for callers without an event loop."""
        bulk = self._drafts.many(
            job_type, payloads, keys=keys, limit_keys=limit_keys, when=when(run_at, delay, priority)
        )
        if connection is None:
            return self._sync(bulk.job_type, lambda: self._portals.call(lambda producer: producer.put_many(bulk)))
        sets = list(bulk.sets())
        return self._sync(bulk.job_type, lambda: callers.put_many_sync(connection, sets, self._poking_sync()))

    def close_sync(self) -> None:
        """Send the last pokes of sync callers and end their thread; it also happens when the process ends."""
        self._portals.close()

    def _sync(self, name: str, put: Callable[[], T]) -> T:
        try:
            return put()
        except UnknownType:
            policy = self.types.get(name).policy
        self._portals.call(lambda producer: producer.announce(policy))
        return put()

    def _poking_sync(self) -> callers.Poking:
        """An open application sends in its own loop; otherwise the thread of the sync callers does."""
        producer = self._opened()
        send = self._portals.poke if producer is None else producer.poke
        return callers.Poking(self.settings.notify, send)
