"""Slots: as many handlers at once as the worker's concurrency, fed from a short backlog.

A slot takes the next claim as soon as it is done with one, without a new task
for each: a task costs more than a small job. Slots start when there is work
and end when there is none.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.contract.verdicts import Parked, Requeued, Verdict, alarms
from penstock.engine.executor import COMPLETED, LOST, Executor
from penstock.engine.recorder import MOST_WAITING
from penstock.engine.running import Running, Stop
from penstock.engine.tally import log_ids
from penstock.store import claims as store
from penstock.store import connect
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.contract.claims import Claim
    from penstock.engine.recorder import Recorder
    from penstock.engine.registry import JobType
    from penstock.engine.runs import Run
    from penstock.engine.workplace import Workplace

MOST_AHEAD: Final = 1000  # jobs claimed ahead of the slots, at the most …
AHEAD_SECONDS: Final = 0.05  # … and no more than are finished in this time
RECHECK: Final = 0.25  # seconds after which a waiting claim is looked at again before it runs
BREATH: Final = 0.004  # seconds after which a slot lets the event loop breathe


class Slots:
    """Runs claims, at most *concurrency* at a time."""

    def __init__(
        self, place: Workplace, executor: Executor, recorder: Recorder, types: dict[str, JobType], concurrency: int
    ) -> None:
        self._place = place
        self._executor = executor
        self._recorder = recorder
        self._types = types
        self._concurrency = concurrency
        self._backlog: deque[Running] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._unstopped: set[asyncio.Task[None]] = set()  # they go on somewhere; nobody waits for them
        self._room = asyncio.Event()
        self._room.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ahead = 0
        self._finished = 0
        self._measured = time.monotonic()

    @property
    def open(self) -> int:
        """Claims that wait or run here."""
        return len(self._backlog) + len(self._tasks)

    def room(self) -> int:
        """How many more claims are welcome: free slots, and a little ahead when jobs are short (C-25)."""
        if self._recorder.waiting >= MOST_WAITING:
            return 0
        return max(0, self._concurrency + self._ahead - self.open)

    async def wait_for_room(self, given_up: Callable[[], bool]) -> None:
        """Return when a claim would find room, or nobody wants to claim any more."""
        while self.room() < max(1, self._ahead // 2) and not given_up():
            self._room.clear()
            await self._room.wait()

    def nudge(self) -> None:
        """Let who waits for room look whether it still wants it: slots may be busy for hours."""
        self._room.set()

    def freed(self) -> None:
        """The recorder has written a set: there may be room again, and a new measure of how fast jobs go."""
        now = time.monotonic()
        span = now - self._measured
        if span > 0.01:  # noqa: PLR2004 - shorter spans say nothing
            rate = self._finished / span
            self._ahead = min(MOST_AHEAD, int(rate * AHEAD_SECONDS))
            self._finished = 0
            self._measured = now
        self._room.set()

    def add(self, claims: Iterable[Claim], run: Run) -> None:
        """Take claims over from the fetcher."""
        now = time.monotonic()
        held = self._place.held
        quiet = events.quiet()
        for claim in claims:
            running = Running(claim, self._types[claim.job_type], run, now)
            earlier = held.get(claim.job_id)
            if earlier is not None:
                earlier.halt(Stop.LOST)  # this very process had lost it; the new claim owns it
            held[claim.job_id] = running
            self._backlog.append(running)
            if not quiet:
                events.job_claimed(claim, self._place.worker_id, log_ids(running))
        self._idle.clear()
        self._start(1)

    def _start(self, most: int) -> None:
        """Start *most* slots, if there is work for them and the concurrency allows it.

        One begins, and each that takes a job starts two more: handlers that
        wait have all slots running after a few turns of the event loop, while
        handlers that never wait are run by one slot and pay for no other.
        """
        for _ in range(min(most, len(self._backlog), self._concurrency - len(self._tasks))):
            task = asyncio.create_task(self._slot())
            self._tasks.add(task)
            task.add_done_callback(self._slot_ended)

    async def _slot(self) -> None:
        if len(self._backlog) > 1:
            self._start(2)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is one
        backlog = self._backlog
        execute, put = self._executor.execute, self._recorder.put
        since = time.monotonic()
        while backlog:
            running = backlog.popleft()
            try:
                if running.stop is not None or not await self._still_owned(running):
                    put(running, LOST)
                    continue
                running.task = task
                verdict, stack = await execute(running)
                if running.task is not task:
                    return  # it was left behind, and is recorded
                running.task = None
                self._finished += 1
                if verdict is COMPLETED:
                    put(running, verdict)
                else:
                    self._put_other(running, verdict, stack)
            except BaseException as error:
                self._drop(running, error)
                raise
            if task.cancelling():
                return  # what is left of a cancellation goes with this task; another slot takes the next job
            if len(backlog) < self._ahead // 2:
                self._room.set()
            now = time.monotonic()
            if now - since > BREATH:
                await asyncio.sleep(0)
                since = time.monotonic()

    def _put_other(self, running: Running, verdict: Verdict, stack: str) -> None:
        """Pass on an end that is no completion; a request for a provider's batch goes to whoever gathers them."""
        if type(verdict) is Parked and self._place.parking is not None:
            self._place.parking.park(running, verdict.request)
            return
        self._recorder.put(running, verdict, stack)
        if alarms(verdict):
            self.release({running.claim.job_type})  # the next would fail likewise: let the breaker see this one first

    async def _still_owned(self, running: Running) -> bool:
        """Ask again before a claim is run that had to wait for its slot (D-52)."""
        if time.monotonic() - running.renewed < RECHECK:
            return True
        try:
            return await store.owned(self._place.pool, self._place.worker_id, running.claim)
        except connect.AWAY:
            return True  # the fence decides when the result is written

    def _drop(self, running: Running, error: BaseException) -> None:
        """Let go of the claim that a dying slot had in hand: it is renewed no more, and the reaper takes the job."""
        running.task = None
        self._recorder.tally.left(running)
        events.claim_dropped(running.claim, type(error).__name__)

    def _slot_ended(self, task: asyncio.Task[None]) -> None:
        self._unstopped.discard(task)
        self._slot_over(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            events.internal_error("slot", type(error).__name__)

    def _slot_over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._start(1)  # what came while this one was ending
        self._room.set()
        if not self._tasks and not self._backlog:
            self._idle.set()

    def lose(self, claims: Iterable[Running], why: Stop = Stop.LOST) -> None:
        """Stop these, whose jobs are gone; one that has ended meanwhile may have been claimed again, and goes on."""
        for running in claims:
            if self._place.held.get(running.claim.job_id) is running:
                running.halt(why)
        self._executor.watch_halted()

    def release_backlog(self, delay: timedelta, code: str | None) -> int:
        """Give back what has not started; no attempt is used."""
        count = len(self._backlog)
        while self._backlog:
            self._recorder.put(self._backlog.popleft(), Requeued(delay, code))
        if not self._tasks:
            self._idle.set()
        return count

    def release(self, types: set[str]) -> None:
        """Give back what has not started of *types*: they were paused, or their breaker has opened."""
        back = [running for running in self._backlog if running.claim.job_type in types] if types else []
        for running in back:
            self._backlog.remove(running)
            self._recorder.put(running, Requeued(timedelta(0)))
        if back and not self._tasks and not self._backlog:
            self._idle.set()

    async def wait_idle(self, seconds: float | None) -> bool:
        """Wait until nothing runs; False when *seconds* have passed first."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def halt_all(self, why: Stop) -> None:
        """Stop every handler."""
        for running in list(self._place.held.values()):
            if running.task is not None:
                running.halt(why)

    def abandon(self, running: Running) -> None:
        """Record what a handler that does not stop has come to, and let another job have its place."""
        task, running.task = running.task, None
        verdict, stack = self._executor.abandon(running)
        self._recorder.put(running, verdict, stack)
        if task is not None:
            self._unstopped.add(task)
            self._slot_over(task)

    def abandon_all(self) -> None:
        """The same for all that were told to stop."""
        for running in list(self._place.held.values()):
            if running.task is not None and running.stop is not None:
                self.abandon(running)
