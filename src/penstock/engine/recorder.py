"""The one place that ends claims: verdicts go in one by one and are written in sets.

A set is flushed when it is large or a few milliseconds old, whichever comes
first; while one is being written the next one gathers. A claim stays held,
and its lease renewed, until its end is committed. An end that somebody's
transaction stands in the way of is tried again by itself, and holds up nobody.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.contract.crash import CrashPoint, passing
from penstock.contract.failure_signals import sqlstate
from penstock.contract.verdicts import Completed, Died, Ended, Lost, Requeued, Retried, Verdict, alarms
from penstock.engine.failing import judged
from penstock.engine.halves import in_halves
from penstock.engine.letters import PUT_OFF, death, give_back, put_off, retry
from penstock.engine.patience import PAUSES, persist
from penstock.engine.tally import Tally
from penstock.store import claims as store
from penstock.store import connect, runs, types
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.contract.claims import Claim
    from penstock.engine.parts import Parts
    from penstock.engine.running import Running
    from penstock.engine.runs import Run
    from penstock.engine.workplace import Workplace
    from penstock.store.connect import Pool

T = TypeVar("T")

SET: Final = 500
MOST_WAITING: Final = 4000  # verdicts that may wait for the database before the fetcher pauses
IDLE_SAVE: Final = 0.2  # seconds after which the record of a run is written by itself
LAST_TRIES: Final = 8  # while closing
TOLD_AFTER: Final = 8  # tries of an end that is in somebody's way until an operator is told


class Recorder:
    """Writes verdicts and counts them in their runs."""

    def __init__(
        self,
        place: Workplace,
        parts: Parts,
        *,
        flush_seconds: float,
        freed: Callable[[], None],
    ) -> None:
        self._place = place
        self._parts = parts  # a recorder that ends takes its worker along: work that nobody records must not go on
        self._flush_seconds = flush_seconds
        self._freed = freed
        self._completed: list[Running] = []
        self._others: list[tuple[Running, Verdict, str]] = []
        self._runs: list[Run] = []
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._closing = False
        self._resting = False
        self._task: asyncio.Task[None] | None = None
        self._writing = 0
        self._written = asyncio.Event()  # nothing is being written
        self._obstructed: dict[Claim, int] = {}  # ends that wait for somebody else's transaction, with their tries
        self.tally = self._tally = Tally(place, self.run_over)
        self.shaky = self._tally.shaky  # types whose breaker has counted a failure
        self.alarmed = 0  # failures not yet written that may open a breaker: claim nothing before they are
        self.requeued = False  # something went back since the fetcher last looked

    @property
    def waiting(self) -> int:
        """Verdicts not yet written."""
        return len(self._completed) + len(self._others) + self._writing

    def start(self) -> None:
        """Begin to flush."""
        self._task = self._parts.start(self._flush_for_ever(), "recorder", lasting=True)

    def put(self, running: Running, verdict: Verdict, stack: str = "") -> None:
        """Take one verdict; it is written soon."""
        if type(verdict) is Completed:
            self._completed.append(running)
        else:
            self._others.append((running, verdict, stack))
            if alarms(verdict):
                self.alarmed += 1
                self._full.set()
        self._some.set()
        if self._resting or len(self._completed) >= SET:
            self._full.set()

    def run_over(self, run: Run) -> None:
        """Keep the record of *run* for the next flush; a drain that claimed nothing leaves none (C-55)."""
        run.finish()
        if run.claimed:
            record = run
            if run.part_of is not None:
                record = run.part_of
                record.absorb(run)
            if record not in self._runs:
                self._runs.append(record)
            self._some.set()

    async def close(self) -> None:
        """Write what is left and stop."""
        self._closing = True
        self._some.set()
        self._full.set()
        if self._task is not None:
            self._parts.release(self._task)
            await asyncio.wait({self._task})

    async def settle(self) -> None:
        """Write all that waits, and wait for what another flush is writing."""
        while self.waiting:
            if self._completed or self._others:
                await self.flush()
            else:
                self._written.clear()
                await self._written.wait()

    async def _flush_for_ever(self) -> None:
        while not (self._closing and not self.waiting and not self._runs):
            await self._some.wait()
            if self._nothing_runs():
                pass  # no more to gather: an idle worker records at once, and is idle again
            elif self.waiting and not self._closing:
                await self._gather(self._flush_seconds, SET)
            elif not self._closing:
                await self._rest()
            self._some.clear()
            self._full.clear()
            await self.flush()
            if self._completed or self._others or self._runs:
                self._some.set()

    def _nothing_runs(self) -> bool:
        """Whether every claim held here has its verdict."""
        return 0 < len(self._place.held) <= self.waiting

    async def _gather(self, seconds: float, enough: int) -> None:
        """Wait until the set is full or *seconds* old."""
        if len(self._completed) >= enough or seconds <= 0:
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._full.set)
        await self._full.wait()
        timer.cancel()

    async def _rest(self) -> None:
        """Only the record of a run waits: it can go with the next verdict, which is not kept waiting for it."""
        self._resting = True
        await self._gather(IDLE_SAVE, 1)
        self._resting = False

    async def flush(self) -> None:
        """Write all that waits."""
        completed, self._completed = self._completed, []
        others, self._others = self._others, []
        over, self._runs = self._runs, []
        count = len(completed) + len(others)
        self._writing += count  # a second flush may begin while this one is being written
        passing(CrashPoint.BEFORE_RECORD)
        try:
            await self._write_completed(completed, over)
            if others:
                await self._write_others(others)
            await self._move_breakers()
        finally:
            self._writing -= count
            if self._writing == 0:
                self._written.set()
            self.alarmed -= sum(alarms(verdict) for _, verdict, _ in others)
        if completed or others:
            passing(CrashPoint.AFTER_RECORD)
            self._freed()

    async def _write_completed(self, completed: list[Running], over: list[Run]) -> None:
        rows = [run.row(self._place.worker_id, self._place.profile) for run in over]
        if not completed:
            await self._save_runs(rows)
            return
        by_claim = {running.claim: running for running in completed}
        pool, worker = self._place.pool, self._place.worker_id

        async def write(some: Sequence[Running]) -> list[Claim]:
            claims = [running.claim for running in some]
            try:
                lost = await self._persist_end("completions", lambda: store.complete(pool, worker, claims, rows))
            except connect.AWAY:
                raise
            except Exception:
                if not rows:
                    raise
                await self._save_runs(rows)  # by themselves: a job must not pay for the record of a run
                rows.clear()
                return await write(some)
            rows.clear()  # they are written
            return lost

        lost, refused = await in_halves(completed, write)
        for claim in lost:
            self._tally.lost(by_claim.pop(claim))
        for running, _ in refused:
            del by_claim[running.claim]
        if rows:
            await self._save_runs(rows)  # all that was to go with them is in somebody's way
        self._tally.completed(list(by_claim.values()))
        refused = [
            (running, error)
            for running, error in refused
            if not await self._tried_later(running, error, partial(self._write_completed, [running], []))
        ]
        if refused:
            # A trigger of the application refused the completion: that is how the attempt ended.
            random = self._place.random
            await self._write_others([(running, *judged(running, error, random)) for running, error in refused])

    async def _save_runs(self, rows: Sequence[dict[str, Any]]) -> None:
        """Save records of runs; one that the server refuses for what it holds is no reason for a worker to end."""

        async def save(some: Sequence[dict[str, Any]]) -> list[None]:
            await self._persist("runs", lambda: runs.save(self._place.pool, some))
            return []

        if rows:
            _, refused = await in_halves(rows, save)
            for row, error in refused:
                events.run_dropped(row["run_id"], row["function"], type(error).__name__)

    async def _write_others(self, others: list[tuple[Running, Verdict, str]]) -> None:
        requeues, deaths = [], []
        for running, verdict, stack in others:
            match verdict:
                case Retried():
                    requeues.append((running, retry(running, verdict, stack)))
                case Requeued():
                    requeues.append((running, give_back(running, verdict)))
                case Died():
                    deaths.append((running, death(running, verdict, stack, self._place.worker_id)))
                case _:
                    await self._write_single(running, verdict)
        if deaths:
            await self._write_deaths(deaths)
            await self._move_breakers()  # before what was given back can be claimed again
        if requeues:
            await self._write_requeues(requeues)

    async def _write_single(self, running: Running, verdict: Verdict) -> None:
        match verdict:
            case Ended():
                await self._write_ended(running, verdict)
            case Lost():
                self._tally.lost(running)
            case _:
                self._tally.completed([running])  # job.transaction() has written it

    async def _write_requeues(self, requeues: list[tuple[Running, store.Requeue]]) -> None:
        refused = await self._write_set("requeues", requeues, store.requeue, self._tally.requeued)
        for (running, move), error in refused:
            if not await self._tried_later(running, error, partial(self._write_requeues, [(running, move)])):
                await self._refused(running, "requeue", error)
                self._tally.lost(running)  # nothing can be written: its lease runs out
        self.requeued = True

    async def _write_deaths(self, deaths: list[tuple[Running, store.Death]]) -> None:
        for (running, letter), error in await self._write_set("deaths", deaths, store.fail, self._tally.died):
            if not await self._tried_later(running, error, partial(self._write_deaths, [(running, letter)])):
                await self._refused(running, "fail", error)
                await self._write_requeues([(running, put_off(letter))])

    async def _write_set(
        self,
        what: str,
        moves: list[tuple[Running, T]],
        write: Callable[[Pool, str, Sequence[T]], Awaitable[list[Claim]]],
        count: Callable[..., None],
    ) -> list[tuple[tuple[Running, T], Exception]]:
        """Write *moves* in one set and count them, each as written or lost; returns those that were refused."""
        pool, worker = self._place.pool, self._place.worker_id

        async def write_some(some: Sequence[tuple[Running, T]]) -> list[Claim]:
            some_moves = [move for _, move in some]
            return await self._persist_end(what, lambda: write(pool, worker, some_moves))

        lost, refused = await in_halves(moves, write_some)
        unwritten = {id(running) for (running, _), _ in refused}
        for running, move in moves:
            if id(running) not in unwritten:
                count(running, move, lost=running.claim in lost)
        return refused

    async def _write_ended(self, running: Running, verdict: Ended) -> None:
        pool, worker = self._place.pool, self._place.worker_id
        try:
            ended = await self._persist_end("cancel", lambda: store.cancel(pool, worker, running.claim, verdict.note))
        except Exception as error:
            if await self._tried_later(running, error, partial(self._write_ended, running, verdict)):
                return
            if isinstance(error, connect.AWAY):
                raise
            await self._refused(running, "cancel", error)
            await self._write_requeues([(running, give_back(running, Requeued(PUT_OFF, "END_REFUSED")))])
            return
        self._tally.canceled(running, lost=not ended)

    async def _refused(self, running: Running, move: str, error: Exception) -> None:
        """The application's own trigger raised: say so, and let the job come back later."""
        job_type = running.claim.job_type
        events.end_refused(job_type, move, type(error).__name__)
        state = sqlstate(error) or "?"
        await self._persist("refusal", lambda: store.note_refusal(self._place.pool, job_type, state))

    async def _move_breakers(self) -> None:
        """Tell the breakers what this flush has brought: first the successes, then the failures."""
        pool = self._place.pool
        mends, trips = self._tally.take_breakers()
        for job_type in mends:
            if await self._persist("breaker", partial(types.mend_breaker, pool, job_type)):
                events.breaker_closed(job_type)
        for job_type, code in trips:
            if await self._persist("breaker", partial(types.trip_breaker, pool, job_type, code)):
                events.breaker_opened(job_type, code)

    async def _persist(self, what: str, write: Callable[[], Awaitable[T]]) -> T:
        """Try until the database has answered; a worker that must stop cannot wait for ever, and its leases run out."""
        return await persist(what, write, self._enough)

    def _enough(self, tries: int) -> bool:
        return self._closing and tries > LAST_TRIES

    async def _persist_end(self, what: str, write: Callable[[], Awaitable[T]]) -> T:
        """The same for ends of claims: those in somebody's way are left to `_tried_later`."""
        return await persist(what, write, self._enough, divisible=True)

    # ------------------------------------------------------------------ in somebody's way

    async def _tried_later(self, running: Running, error: Exception, write: Callable[[], Awaitable[None]]) -> bool:
        """Let an end that somebody stands in the way of be tried again alone; False: that is not what is wrong.

        It is tried for as long as it takes: the job has been done, and nobody can take it away while its row is
        held. A trigger that always raises so is told like one that refuses (C-62).
        """
        if not isinstance(error, connect.OBSTRUCTED):
            self._obstructed.pop(running.claim, None)
            return False
        tries = self._obstructed[running.claim] = self._obstructed.get(running.claim, 0) + 1
        if self._closing and tries > LAST_TRIES:
            del self._obstructed[running.claim]
            self._tally.lost(running)  # its lease runs out
            return True
        if tries == TOLD_AFTER:
            await self._refused(running, "end", error)
        self._writing += 1
        pause = PAUSES[min(tries, len(PAUSES)) - 1]
        _ = self._parts.start(self._write_later(running, pause, write), "recorder")
        return True

    async def _write_later(self, running: Running, pause: float, write: Callable[[], Awaitable[None]]) -> None:
        tries = self._obstructed[running.claim]
        try:
            await asyncio.sleep(pause)
            await write()
            if self._obstructed.get(running.claim) == tries:
                del self._obstructed[running.claim]
            await self._move_breakers()
        finally:
            self._writing -= 1
            if self._writing == 0:
                self._written.set()
            self._some.set()  # who closes looks again
        self._freed()
