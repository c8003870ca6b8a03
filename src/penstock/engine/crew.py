"""The crew: the parts that turn claims into ends, put together once for a worker and for a bounded run.

Fetcher, slots, executor, recorder and heartbeat always come as one set: a
claim that one of them does not know of would be run twice or renewed for ever.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import uuid4

from penstock.contract.errors import PartEnded, WorkerNameTaken
from penstock.contract.prices import load_prices
from penstock.engine import births, control, names
from penstock.engine.cancels import Cancels
from penstock.engine.deadlines import Deadlines
from penstock.engine.executor import Executor
from penstock.engine.fetcher import Fetcher
from penstock.engine.heartbeat import Heartbeat
from penstock.engine.lending import Lender
from penstock.engine.memory import rss_bytes
from penstock.engine.parts import Parts
from penstock.engine.recorder import Recorder
from penstock.engine.running import Running, Stop
from penstock.engine.slots import Slots
from penstock.engine.suspects import Suspects
from penstock.engine.workplace import Workplace
from penstock.store import connect, logins, schema, silence, spend
from penstock.store import types as type_store
from penstock.store import workers as worker_store
from penstock.telemetry import events, item_events
from penstock.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from penstock.contract.claims import Trigger
    from penstock.engine.batches.asking import Adapters
    from penstock.engine.fetcher import Group
    from penstock.engine.registry import JobType
    from penstock.engine.runs import Run
    from penstock.settings import Settings
    from penstock.store.connect import Pool

NAME_TRIES: Final = 20
MAX_NAME: Final = 90  # leaves room for a number
LAST_SECONDS: Final = 5.0  # that handlers have to stop when the grace is over
POOL: Final = 6  # claims, records, stages and effects; handlers' transactions have connections of their own


class Crew:
    """Claims, runs and records jobs of *types* under one name."""

    brief: ClassVar = False  # mostly over within seconds
    _pool: Pool
    _stopping = False

    def __init__(
        self,
        dsn: str,
        types: Sequence[JobType],
        settings: Settings,
        *,
        name: str | None = None,
        concurrency: int | None = None,
        insecure: bool = False,
        pool_size: int | None = None,
        adapters: Callable[[], Adapters] | None = None,
    ) -> None:
        self._dsn = dsn
        self._settings = settings
        self._types = {t.name: t for t in types}
        self._name = name or settings.worker_name
        self._insecure = insecure
        self.concurrency = concurrency or settings.concurrency
        self._pool_size = pool_size or POOL
        self._adapters = adapters
        self.failure: BaseException | None = None  # what ended this crew before its time
        self.parts = Parts(self.part_ended)
        self.instance = uuid4()  # a successor of the same instance takes its name over at once

    async def reopen_types(self) -> None:
        """Let types go on that their daily cap had stopped, once they have room again (C-64)."""
        gated = self.place.gated
        asked = [t.policy for t in self._types.values() if t.policy.cap_micros is not None or t.name in gated]
        for job_type in await spend.reopen(self.place.pool, asked):
            item_events.spend_cap_lifted(job_type)

    async def run_suspect(self, groups: Sequence[Group], trigger: Trigger) -> int:
        """Run one suspect of *groups* alone, as a drain of its own; returns how many were run (C-13)."""

        def begin(job_type: str) -> Run:
            group = next(group for group in groups if job_type in group.types)
            run = self.fetcher.begin(group, trigger, group.drain)
            run.claiming = False  # it takes no other
            return run

        return await self.suspects.turn(list(self._types), begin)

    async def settle(self) -> None:
        """Wait until everything taken has ended and is written."""
        await self.slots.wait_idle(None)
        await self.recorder.settle()

    async def _open(self) -> None:
        """Connect, take a name, put the parts together, start the heartbeat."""
        pool = await self._connect()
        await type_store.sync(pool, [t.policy for t in self._types.values()])
        self._who = who = await self._take_name(pool)
        self.worker_id = who.worker_id
        lender = Lender(
            self._dsn,
            size=min(self.concurrency, self._settings.pool_max),
            prepared=self._settings.prepared_statements,
        )
        self.place = Workplace(
            self.worker_id,
            pool,
            lender,
            profile=self._settings.profile,
            adapters=self._adapters,
            prices=load_prices(self._settings.prices),
        )
        self.deadlines = Deadlines(self.place.held.values(), self._abandon)
        self.executor = self._make_executor()
        self.recorder = Recorder(
            self.place, self.parts, flush_seconds=self._settings.flush_ms / 1000, freed=self._on_freed
        )
        self.slots = Slots(self.place, self.executor, self.recorder, self._types, self.concurrency)
        self.fetcher = Fetcher(self.place, self.slots, self.recorder, self._types)
        self.cancels = Cancels(self.place, self.slots, Parts(lambda _part, _error: None))  # the next message starts it
        self.suspects = Suspects(self.place, self.slots, self.fetcher, self._types)
        await self.fetcher.look_at_gates()
        loop = asyncio.get_running_loop()
        self.heartbeat = Heartbeat(
            self._dsn,
            who,
            self.place.held,
            lambda gone: _in_loop(loop, self.slots.lose, gone),
            rss_bytes,
            lambda error: _in_loop(loop, self.part_ended, "heartbeat", error),
            prepared=self._settings.prepared_statements,
        )
        self.recorder.start()
        self.heartbeat.start(min(t.policy.lease for t in self._types.values()), at_once=not self.brief)

    async def _connect(self) -> Pool:
        pool = await connect.create_pool(
            self._dsn,
            size=self._pool_size,
            name="penstock worker",
            prepared=self._settings.prepared_statements,
            answer_within=silence.ANSWER_WITHIN,
        )
        self._pool = pool
        try:
            async with pool.acquire() as connection:
                await schema.require_current(connection)
                if not self._insecure:
                    await logins.refuse_unsafe(connection)
        except BaseException:
            pool.terminate()
            raise
        return pool

    async def _take_name(self, pool: Pool) -> worker_store.Identity:
        if self._name is not None:
            return await names.take(pool, self._name, self._register, lambda: self._stopping)
        return await self._take_free_name(pool, socket.gethostname())

    async def _take_free_name(self, pool: Pool, base: str) -> worker_store.Identity:
        """The first free slot of *base*; another process that starts at the same moment may be quicker."""
        for _ in range(NAME_TRIES):
            with suppress(WorkerNameTaken):
                return await self._register(pool, await worker_store.free_name(pool, base[:MAX_NAME]))
        return await self._register(pool, await worker_store.free_name(pool, base[:MAX_NAME]))

    async def _register(self, pool: Pool, name: str, dead: UUID | None = None) -> worker_store.Identity:
        host = socket.gethostname()[:MAX_NAME]
        who = worker_store.Identity(name, self.instance, host, os.getpid(), VERSION, births.birth())
        await worker_store.register(
            pool,
            who,
            sorted(self._types),
            self.concurrency,
            notify=self._settings.notify,
            poll_seconds=self._settings.poll_seconds,
            dead=dead,
        )
        return who

    def _make_executor(self) -> Executor:
        return Executor(self.place, self.deadlines, self.concurrency)

    def part_ended(self, part: str, error: BaseException) -> None:
        """What has lost a part cannot go on: its leases would run out, or its ends stay unwritten."""
        if self.failure is None:
            self.failure = error if isinstance(error, Exception) else PartEnded(part, type(error).__name__)
        if hasattr(self, "fetcher"):
            self.fetcher.stop()
            self.slots.halt_all(Stop.SHUTDOWN)

    def _on_cancel(self, payload: str) -> control.Message:
        """Look at a job that a message names, if it is one of ours; returns what else the message asks for."""
        message = control.read(payload)
        if message.cancel is not None:
            self.cancels.hear(message.cancel)
        return message

    def _abandon(self, running: Running) -> None:
        self.slots.abandon(running)

    def _on_freed(self) -> None:
        self.slots.freed()
        self.suspects.freed()

    async def _finish_work(self, grace: float) -> None:
        """Take no more, give back what has not started, wait *grace* seconds for the rest, record everything."""
        self.fetcher.stop()
        self.slots.release_backlog(timedelta(0), "SHUTDOWN")
        if not await self.slots.wait_idle(grace):
            self.slots.halt_all(Stop.SHUTDOWN)
            if not await self.slots.wait_idle(LAST_SECONDS):
                self.slots.abandon_all()
        await self.cancels.close()
        await self.recorder.close()

    async def _leave(self) -> None:
        """Free the name and disconnect."""
        self.deadlines.close()
        self.executor.close()
        self.heartbeat.stop()  # last, so that no lease is lost while the rest winds down
        try:
            await worker_store.retire(self.place.pool, self._who)
        except connect.AWAY as error:
            events.database_away("retire", type(error).__name__, 0.0)
        await self.place.lender.close()
        await self._close_pool()

    async def _close_pool(self) -> None:
        if hasattr(self, "_pool"):
            try:
                async with asyncio.timeout(5):
                    await self._pool.close()
            except connect.AWAY:
                self._pool.terminate()


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: Any) -> None:
    try:
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:  # the loop is closed: there is nothing left to tell
        return
