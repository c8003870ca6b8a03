"""Enqueueing on connections of our own: the quick way in, the retries after a cut, the pokes behind it.

A cut connection leaves a COMMIT in doubt. It is settled and never guessed: a
single job has an id that was chosen here, so a second try either writes it or
finds it; a bulk asks the server what became of its transaction.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import (
    CommitInDoubt,
    DatabaseUnavailable,
    EnqueueRefused,
    PenstockError,
    SchemaOutdated,
    UnknownType,
)
from penstock.engine.owned import begun
from penstock.engine.pokes import Carried, Pokes
from penstock.settings import Notify
from penstock.store import connect, jobs
from penstock.store import types as type_store
from penstock.store.puts import Put
from penstock.store.silence import bare, refuse_doubt, usable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Self
    from uuid import UUID

    from penstock.contract.policies import Policy
    from penstock.engine.drafts import Bulk
    from penstock.settings import Settings
    from penstock.store.claims import Transaction
    from penstock.store.connect import Pool, Pooled
    from penstock.store.drivers import Voice
    from penstock.store.puts import NewJob, NewJobs, PutMany

PAUSES: Final = (0.05, 0.2, 1.0)  # seconds before another try
IN_DOUBT: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # a server may take a moment to see that its client has gone


class Producer:
    """Enqueues over a pool of its own, in one event loop."""

    def __init__(self, pool: Pool, settings: Settings, dsn: str) -> None:
        self.pool = pool
        self.dsn = dsn
        self.loop = asyncio.get_running_loop()
        self.pokes = Pokes(self._notify, settings.poke_ms / 1000)
        self._notify_mode = settings.notify
        self._inside = settings.notify is Notify.IN_TRANSACTION
        self._idle: list[Pooled] = []
        self._channels: dict[str, str] = {}  # of types that were enqueued here before
        self._keep = 2 if settings.pool_max > 3 else 1  # noqa: PLR2004 - leaves most of a pool to others

    @classmethod
    async def open(cls, dsn: str, settings: Settings) -> Self:
        """Connect."""
        prepared = settings.prepared_statements
        pool = await connect.create_pool(dsn, size=settings.pool_max, prepared=prepared, writes=True)
        return cls(pool, settings, dsn)

    async def close(self) -> None:
        """Send the last pokes and disconnect."""
        await self.pokes.flush()
        idle, self._idle = self._idle, []
        for connection in idle:
            await self.pool.release(connection)
        await self.pool.close()

    def poke(self, channel: str | None, job_type: str) -> None:
        """Poke, if one is due and pokes are on; returns at once, from any thread."""
        if channel is not None and self._notify_mode is not Notify.OFF:
            self.pokes.send(channel, job_type)

    def speak(self, channel: str, job_type: str, voice: Voice) -> bool:
        """Let a connection that has just committed poke, if one is due: it is awake, where ours had to be woken.

        False, also when it could not: the poke is still to be sent.
        """
        if not self.pokes.here or self._notify_mode is Notify.OFF:
            return False
        statement = jobs.poke_statement(channel, job_type)
        if statement is None or self.pokes.carry(channel, job_type) is Carried.NOTHING:
            return False
        return voice(statement)

    async def announce(self, policy: Policy) -> None:
        """Tell the database of a type that it does not know; a login that may not do so raises `UnknownType`."""
        async with self.connection() as connection:
            if not await type_store.announce(connection, policy):
                raise UnknownType(policy.job_type)

    # -------------------------------------------------------------- connections

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Pooled]:
        """One connection for a while."""
        connection = await self._take()
        try:
            yield connection
        except BaseException:
            await self.pool.release(connection)
            raise
        await self._give(connection)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Pooled]:
        """One connection for code that is not ours; it comes back reset, as such code may leave anything in it."""
        async with self.connection() as connection:
            yield connection
            try:
                await connection.reset()
            except connect.AWAY:  # what was done with it is committed all the same; nobody gets it again
                if usable(connection):
                    connection.terminate()

    def _at_hand(self) -> Pooled | None:
        """A connection that was used a moment ago: one of the pool would cost a fifth of a small enqueue."""
        if not self._idle or asyncio.get_running_loop() is not self.loop:
            return None
        connection = self._idle.pop()
        if usable(connection):
            return connection
        self._idle.append(connection)  # `_take` gives it back
        return None

    async def _take(self) -> Pooled:
        """A connection that was used a moment ago, else one of the pool."""
        if asyncio.get_running_loop() is not self.loop:
            raise PenstockError(
                "this application was opened in another event loop; open one for each loop, or use enqueue_sync"
            )
        while self._idle:
            connection = self._idle.pop()
            if usable(connection):
                return connection
            await self.pool.release(connection)
        return await self.pool.acquire()

    def _kept(self, connection: Pooled) -> bool:
        """Keep *connection* at hand, if there is a place for it."""
        if len(self._idle) >= self._keep or not usable(connection) or self.pool.is_closing():
            return False
        self._idle.append(connection)
        return True

    async def _give(self, connection: Pooled) -> None:
        if not self._kept(connection):
            await self.pool.release(connection)

    async def _notify(self, channel: str, job_type: str) -> None:
        async with self.connection() as connection:
            await jobs.poke(connection, channel, job_type)

    # ------------------------------------------------------------------ one job

    async def put(self, job: NewJob) -> UUID:
        """Put one job in and poke."""
        channel, put = self._channels.get(job.job_type), None
        carried = self._carried(channel, job.job_type)
        try:
            poke = self._inside or carried is not Carried.NOTHING
            put = await self._put_for_sure(job, None if poke or not job.plain else channel, poke=poke)
        finally:
            if carried is Carried.OTHERS_TOO and (put is None or not put.created):
                self.poke(channel, job.job_type)  # nobody has spoken for them
        if put.channel is not None:
            self._channels[job.job_type] = put.channel
            self.poke(put.channel, job.job_type)
        return put.job_id

    async def _put_for_sure(self, job: NewJob, channel: str | None, *, poke: bool) -> Put:
        try:
            return await self._put(job, channel, poke=poke)
        except (SchemaOutdated, CommitInDoubt):
            raise
        except connect.AWAY as error:
            return await self._put_again(job, error)

    def _carried(self, channel: str | None, job_type: str) -> Carried:
        if channel is None or self._notify_mode is not Notify.AFTER_COMMIT:
            return Carried.NOTHING
        return self.pokes.carry(channel, job_type)

    async def _put(self, job: NewJob, channel: str | None, *, poke: bool) -> Put:
        """The way of most jobs: a connection that is at hand, without the pool's wrapping around every call.

        With *channel* the short statement is tried first.
        """
        lent = self._at_hand() or await self._take()
        connection: Pooled = bare(lent)  # its wrapping costs a part of every small enqueue
        try:
            if channel is not None and await jobs.put_plain(connection, job, channel):
                put = Put(job.job_id, created=True, channel=channel)
            else:
                put = await jobs.put(connection, job, poke=poke)
            refuse_doubt(connection)
        except EnqueueRefused:
            await self._give(lent)
            raise
        except BaseException:
            await self.pool.release(lent)
            raise
        if not self._kept(lent):
            await self.pool.release(lent)
        return put

    async def _put_again(self, job: NewJob, error: Exception) -> Put:
        """The first try had no answer, so the job may be in: the same id goes in once."""
        for pause in PAUSES:
            await asyncio.sleep(pause)
            try:
                async with self.connection() as lent:
                    connection = bare(lent)
                    put = await jobs.put_again(connection, job, poke=self._inside)
                    refuse_doubt(connection)
                    return put
            except (SchemaOutdated, CommitInDoubt):
                raise
            except connect.AWAY as again:
                error = again
        raise in_doubt(error)

    # --------------------------------------------------------------------- bulk

    async def put_many(self, bulk: Bulk) -> list[UUID]:
        """Put all jobs in, in one transaction, and poke once."""
        progress = await self._put_all(bulk)
        self.poke(progress.channel, bulk.job_type)
        return progress.job_ids

    async def _put_all(self, bulk: Bulk) -> Progress:
        for pause in (*PAUSES, None):
            progress = Progress()
            try:
                async with self.connection() as lent:
                    connection = bare(lent)
                    async with begun(connection):
                        await self._stream(connection, bulk, progress)
                    refuse_doubt(connection)
            except (SchemaOutdated, CommitInDoubt):
                raise
            except connect.AWAY as error:
                if await self._committed(progress, error):
                    return progress
                if pause is None:
                    raise in_doubt(error) from None
            else:
                return progress
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    async def _stream(self, connection: Transaction, bulk: Bulk, progress: Progress) -> None:
        """Encode one set while the server writes the one before it."""
        under_way: asyncio.Task[PutMany] | None = None
        try:
            for part in bulk.breathing_sets():
                if part is None:
                    await asyncio.sleep(0)
                    continue
                if under_way is not None:
                    progress.add(await under_way)
                under_way = asyncio.create_task(self._put_set(connection, part))
                await asyncio.sleep(0)  # it is on its way to the server before the next set is encoded
            if under_way is not None:
                progress.add(await under_way)
        except BaseException:
            if under_way is not None and not under_way.done():
                under_way.cancel()
                await asyncio.wait({under_way})  # the connection is free for the ROLLBACK only then
            raise

    async def _put_set(self, connection: Transaction, part: NewJobs) -> PutMany:
        return await jobs.put_many(connection, part, poke=self._inside)

    async def _committed(self, progress: Progress, error: Exception) -> bool:
        """Whether a bulk that was cut off had committed; one that nobody can tell about raises."""
        if progress.transaction_id is None:
            return False
        for pause in IN_DOUBT:
            try:
                async with self.connection() as connection:
                    outcome = await jobs.committed(connection, progress.transaction_id)
            except connect.AWAY as again:
                outcome, error = None, again
            if outcome is not None:
                return outcome
            await asyncio.sleep(pause)
        raise in_doubt(error)


class Progress:
    """How far a bulk has come."""

    def __init__(self) -> None:
        self.job_ids: list[UUID] = []
        self.channel: str | None = None
        self.transaction_id: str | None = None

    def add(self, put: PutMany) -> None:
        """Take in the answer for one set."""
        self.job_ids.extend(put.job_ids)
        self.channel = put.channel or self.channel
        self.transaction_id = put.transaction_id


def in_doubt(error: BaseException) -> DatabaseUnavailable:
    """What a caller is told when nobody can say whether the job went in."""
    return DatabaseUnavailable(
        f"the database went away during an enqueue ({type(error).__name__}), which may or may not have gone in; "
        "enqueue again with the same key: it returns the job if there is one"
    )
