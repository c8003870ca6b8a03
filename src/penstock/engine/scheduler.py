"""The scheduler: runs what is due, once per tick, however many schedulers there are.

A due schedule is claimed for a short lease. The tick is used up in the same
statement that records its run, its skip or its job. So a scheduler that dies
before that statement leaves the tick to another one, and one that dies after
it leaves a run that the next tick goes on from; no tick is ever run twice.

Missed ticks: when nobody was there, one run makes up for all of them. The
newest tick runs, the older ones are counted in `missed_count`, and the next
due time is reckoned from now.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.claims import Trigger
from penstock.contract.crash import CrashPoint, passing
from penstock.contract.errors import PartEnded
from penstock.contract.keys import stored_key, uuid7
from penstock.contract.policies import CONTROL_CHANNEL
from penstock.engine import control
from penstock.engine.cadences import Cadence
from penstock.engine.dispatcher import Dispatcher
from penstock.engine.listener import Listener
from penstock.engine.paced import Paced
from penstock.engine.parts import Parts
from penstock.settings import Notify
from penstock.store import clock, connect, jobs, schedules, silence
from penstock.store import types as type_store
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.functions import Function, Functions
    from penstock.engine.registry import Registry
    from penstock.engine.worker import Worker
    from penstock.settings import Settings
    from penstock.store.claims import Db
    from penstock.store.connect import Pool

POOL: Final = 4
LEASE: Final = timedelta(seconds=60)  # a dead scheduler's tick is run by another one after this
RELEASE_PAUSE: Final = 1.0  # seconds between tries to give a schedule free after the database was away
LONGEST_DELAY: Final = 30.0  # seconds between tries while the database is away


class Scheduler:
    """Serves the schedules of one application until it is told to stop."""

    def __init__(
        self,
        dsn: str,
        types: Registry,
        functions: Functions,
        settings: Settings,
        *,
        name: str | None = None,
        insecure: bool = False,
        lease: timedelta = LEASE,
        **options: Any,
    ) -> None:
        self._dsn = dsn
        self._types = types
        self._functions = functions
        self._settings = settings
        self.name = name or f"{socket.gethostname()[:60]}:{os.getpid()}"
        self._insecure = insecure
        self._lease = lease
        self._options = options
        self._pools: list[Pool] = []  # one for the schedules, one that functions may hold for as long as they run
        self._wake = asyncio.Event()
        self._changes = Paced(self._wake.set, control.PAUSE)
        self._parts = Parts(self._on_part_ended)
        self._failure: BaseException | None = None
        self._stopping = False
        self._tasks: dict[asyncio.Task[None], tuple[str, int]] = {}
        self.ready = asyncio.Event()  # set when the schedules are written and changes are heard

    async def run(self) -> None:
        """Schedule until `stop` is called; then let what runs end within the grace."""
        try:
            await self.open()
            renewal = self._parts.start(self._renew_for_ever(), "schedule leases", lasting=True)
            try:
                await self._loop()
            finally:
                await self.settle(self._settings.grace_seconds)
                await self._parts.end(renewal)
        finally:
            await self.close()
        if self._failure is not None:
            raise self._failure

    def stop(self, reason: str = "asked") -> None:
        """Start nothing more; `run` returns when what runs has ended or the grace is over."""
        if not self._stopping:
            events.scheduler_stopping(self.name, len(self._tasks), reason)
        self._stopping = True
        self._wake.set()

    def _on_part_ended(self, part: str, error: BaseException) -> None:
        self._failure = error if isinstance(error, Exception) else PartEnded(part, type(error).__name__)
        self.stop(f"{part} ended")

    async def open(self) -> None:
        """Connect, check the login, write the declared types and schedules, hear of changes."""
        self._pool = await self._create_pool("penstock scheduler", answer_within=silence.ANSWER_WITHIN)
        self._lent = await self._create_pool("penstock runs")
        self.dispatcher = Dispatcher(
            self._dsn,
            self._lent,
            self._functions,
            self._settings,
            name=self.name,
            insecure=self._insecure,
            **self._options,
        )
        await self.dispatcher.refuse_strangers(admin=False)
        await type_store.sync(self._pool, [job_type.policy for job_type in self._types])
        await sync(self._pool, self._functions)
        self._listener = Listener(
            self._settings.listen_dsn or self._dsn, [CONTROL_CHANNEL], poked=self._on_control, restored=self._wake.set
        )
        await self._listener.start()
        events.scheduler_started(self.name, sorted(s.schedule for s in self._functions.schedules()))
        self.ready.set()

    async def close(self) -> None:
        """Disconnect."""
        self._changes.close()
        if hasattr(self, "_listener"):
            await self._listener.stop()
        for pool in self._pools:
            await pool.close()
        events.scheduler_stopped(self.name)

    async def _create_pool(self, name: str, **options: Any) -> Pool:
        prepared = self._settings.prepared_statements
        pool = await connect.create_pool(self._dsn, size=POOL, name=name, prepared=prepared, **options)
        self._pools.append(pool)
        return pool

    async def turn(self) -> int:
        """Start everything that is due now; returns how many schedules that was."""
        rows = await schedules.claim(self._pool, self.name, self._function_names(), self._lease)
        if rows:
            passing(CrashPoint.AFTER_SCHEDULE_CLAIM)
        for row in rows:
            task = asyncio.create_task(self._serve(dict(row)), name=f"penstock-schedule-{row['schedule']}")
            self._tasks[task] = (row["schedule"], row["claim_seq"])
            task.add_done_callback(self._served)
        return len(rows)

    async def settle(self, grace: float | None = None) -> None:
        """Wait for what runs; after *grace* seconds it is halted."""
        if grace is not None and self._tasks:
            self.dispatcher.stop(grace)
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    # ------------------------------------------------------------------- loop

    async def _loop(self) -> None:
        delay = 1.0
        while not self._stopping:
            self._wake.clear()
            try:
                await self.turn()
                pause, delay = await self._until_needed(), 1.0
            except connect.AWAY as error:
                events.database_away("scheduler", type(error).__name__, delay)
                pause, delay = delay, min(LONGEST_DELAY, delay * 2)
            await self._sleep(pause)

    async def _until_needed(self) -> float:
        """To the next due time, and no longer than the fallback poll (C-29)."""
        span = await schedules.next_due(self._pool, self._function_names())
        poll = self._settings.poll_seconds
        return poll if span is None else min(poll, max(0.001, span.total_seconds()))

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _renew_for_ever(self) -> None:
        """Keep the schedules of running functions, so that they do not overlap themselves."""
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            if self._tasks:
                try:
                    await schedules.renew(self._pool, list(self._tasks.values()), self._lease)
                except connect.AWAY as error:
                    events.database_away("schedule leases", type(error).__name__, self._lease.total_seconds() / 3)

    def _on_control(self, _channel: str, payload: str) -> None:
        if control.read(payload).schedules:
            self._changes.ask()

    def _function_names(self) -> list[str]:
        return [function.name for function in self._functions]

    # ------------------------------------------------------------------- tick

    async def _serve(self, row: Mapping[str, Any]) -> None:
        """One claimed schedule: work out its tick, and enqueue or run."""
        try:
            tick = tick_of(row)
            if tick.missed:
                events.ticks_missed(tick.schedule, tick.missed)
            if row["job_type"] is not None:
                await self._enqueue(row, tick)
            else:
                trigger = Trigger.SCHEDULE if row["requested_at"] is None else Trigger.ADMIN
                await self._run(self._functions.get(row["function"]), trigger, tick)
                await schedules.release(self._pool, tick.schedule, tick.claim_seq)
        except connect.AWAY as error:
            events.database_away("schedule", type(error).__name__, RELEASE_PAUSE)
            await self._let_go(row)
        except Exception as error:  # one bad schedule must not stop the others
            events.schedule_failed(row["schedule"], type(error).__name__)

    async def _run(self, function: Function, trigger: Trigger, tick: schedules.Tick) -> None:
        """One run, and its follow-ups as long as they fill their bounds; the schedule stays claimed meanwhile."""
        done = await self.dispatcher.dispatch(function, trigger, tick)
        while done.again and not self._stopping:
            done = await self.dispatcher.dispatch(function, Trigger.FOLLOW_UP)

    async def _enqueue(self, row: Mapping[str, Any], tick: schedules.Tick) -> None:
        moment = tick.due_at or row["requested_at"]
        key = stored_key(row["job_type"], f"{tick.schedule}@{moment.isoformat()}")
        put = await schedules.enqueue(self._pool, tick, key, uuid7())
        wanted = self._settings.notify is not Notify.OFF
        if wanted and put is not None and put["channel"] is not None:
            await jobs.poke(self._pool, put["channel"], row["job_type"])

    async def _let_go(self, row: Mapping[str, Any]) -> None:
        """Give the schedule free as soon as the database answers; if it does not, the lease runs out by itself."""
        for _ in range(int(self._lease.total_seconds() / RELEASE_PAUSE)):
            await asyncio.sleep(RELEASE_PAUSE)
            with suppress(*connect.AWAY):
                await schedules.release(self._pool, row["schedule"], row["claim_seq"])
                return

    def _served(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            events.internal_error("schedule", type(error).__name__)  # its lease runs out, and another tick follows
        self._wake.set()  # its next due time is known only now


async def sync(pool: connect.Pool, functions: Functions) -> None:
    """Write the declared schedules to the database; those that are gone from the code are retired, never deleted."""
    now = await clock.now(pool)
    declared = [(s, Cadence(s.every, s.cron, s.timezone).after(now)) for s in functions.schedules()]
    for name in await schedules.sync(pool, functions.source, declared):
        events.schedule_retired(name)


async def switch_on(db: Db, schedule: str) -> None:
    """Let a schedule run again from its next due time on: what it missed while it was off is not made up for."""
    row = await schedules.get(db, schedule)
    cadence = Cadence(row["every"], row["cron"], row["timezone"])
    await schedules.switch(db, schedule, enabled=True, next_due=cadence.after(row["now"]))


async def beside(worker: Worker, scheduler: Scheduler) -> None:
    """Run *scheduler* in a worker's process, as long as the worker runs; one that fails stops the other."""
    task = asyncio.create_task(scheduler.run(), name="penstock-scheduler")
    task.add_done_callback(lambda _: worker.stop("scheduler ended"))
    try:
        await worker.run()
    finally:
        scheduler.stop("worker ended")
        await task


def tick_of(row: Mapping[str, Any]) -> schedules.Tick:
    """The tick that a claimed schedule runs: the newest one due, or none when an operator asked in between."""
    cadence = Cadence(row["every"], row["cron"], row["timezone"])
    first, now = row["next_due_at"], row["now"]
    if first > now or not row["enabled"] or row["retired_at"] is not None:
        return schedules.Tick(row["schedule"], row["claim_seq"], None, None, 0)
    due, missed = cadence.overdue(first, now)
    return schedules.Tick(row["schedule"], row["claim_seq"], due, cadence.after(now), missed)
