"""The dispatcher: counts what waits, then starts a function for one bounded run, or records the skip.

A run that a schedule or an admin started has a record from its first moment
to its last, also when it claimed nothing or went wrong (C-55).
"""

from __future__ import annotations

import asyncio
import inspect
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.classify import classify
from penstock.contract.crash import CrashPoint, passing
from penstock.contract.errors import RunRefused
from penstock.contract.failures import FailureClass
from penstock.engine.alerts import Severity, raise_alert
from penstock.engine.bounded import BoundedRun, TimedRun
from penstock.engine.callables import is_async
from penstock.engine.functions import RunHandle
from penstock.store import connect, logins, runs, schedules
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from penstock.contract.claims import Trigger
    from penstock.engine.functions import Function, Functions
    from penstock.engine.registry import JobType
    from penstock.settings import Settings
    from penstock.store.connect import Pool
    from penstock.store.schedules import Tick

NOTHING_PENDING: Final = "no pending items"
RETRIES: Final = (0.1, 0.5, 1.0, 2.0, 5.0)  # seconds between tries to save the end of a run


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What became of one dispatch: a run, a skip, or neither because another scheduler has the tick."""

    function: str
    run: TimedRun | None = None
    skipped: bool = False
    error: str | None = None  # the class of what stopped the function

    @property
    def again(self) -> bool:
        """Whether the run asks for a follow-up; one that went wrong waits for its next tick."""
        return self.run is not None and self.run.again and self.error is None


class Dispatcher:
    """Starts the functions of one application on one database."""

    def __init__(
        self,
        dsn: str,
        pool: Pool,
        functions: Functions,
        settings: Settings,
        *,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self._dsn = dsn
        self._pool = pool
        self._functions = functions
        self._settings = settings
        self._name = name
        self._clock = clock
        self._options = options  # of the runs: concurrency, insecure, …
        self._active: set[BoundedRun] = set()
        self._calls: set[asyncio.Task[Any]] = set()

    async def refuse_strangers(self, *, admin: bool) -> None:
        """Only a login that may work starts runs, and by hand only one that also operates (Q-47, Q-48).

        One that no rule binds is refused first, as a worker refuses it (C-68).
        """
        if not self._options.get("insecure"):
            async with self._pool.acquire() as connection:
                await logins.refuse_unsafe(connection)
        rights = await runs.rights(self._pool)
        if not rights.works:
            raise RunRefused(
                "this login may not start a run: it is no member of penstock_worker; an operator asks the scheduler "
                "with `penstock schedules run`"
            )
        if admin and not rights.operates:
            raise RunRefused(
                "this login may not start a run by hand: it is no member of penstock_operator; leave out --admin "
                "when a timer calls this command"
            )

    async def dispatch(self, function: Function, trigger: Trigger, tick: Tick | None = None) -> Dispatched:
        """Run *function* once, unless nothing waits for it. Errors of the function end its run, not the caller."""
        caps = self._functions.caps_of(function)
        if await self._pending(function) == 0:
            return await self._skip(function, tick)
        run = TimedRun(function.name, trigger, caps, self._clock)
        if function.types:
            return await self._run_jobs(function, run, tick)
        return await self._run_call(function, run, tick)

    def stop(self, grace: float) -> None:
        """Let running functions end within *grace* seconds."""
        for run in self._active:
            run.stop(grace)
        for call in self._calls:
            asyncio.get_running_loop().call_later(grace, call.cancel)

    async def _pending(self, function: Function) -> int | None:
        if function.types:
            return (await runs.pending(self._pool, function.types)).count
        return None if function.pending is None else await function.pending(self._pool)

    async def _skip(self, function: Function, tick: Tick | None) -> Dispatched:
        if tick is None:
            await runs.skip(self._pool, function.name, NOTHING_PENDING)
        elif not await schedules.begin_skip(self._pool, tick, function.name, NOTHING_PENDING):
            return Dispatched(function.name)
        events.run_skipped(function.name)
        return Dispatched(function.name, skipped=True)

    async def _run_jobs(self, function: Function, run: TimedRun, tick: Tick | None) -> Dispatched:
        overflow = timedelta(seconds=self._settings.active_profile().overflow_backoff_seconds)
        types = self._functions.types_of(function)
        options = {"adapters": self._functions.adapters, **self._options}
        crew = _crew(types)(self._dsn, types, self._settings, run, overflow=overflow, **options)
        try:
            await crew.open()
            started = await self._begin(run, tick, crew.worker_id)
            if started is None:
                return Dispatched(function.name)
            self._active.add(crew)
            error = await self._guarded(crew.work, function)
        finally:
            self._active.discard(crew)
            await crew.close()
        return await self._end(function, run, crew.worker_id, started, error)

    async def _run_call(self, function: Function, run: TimedRun, tick: Tick | None) -> Dispatched:
        started = await self._begin(run, tick, self._name)
        if started is None:
            return Dispatched(function.name)
        handle = RunHandle(run, self._pool, self._settings)
        error = await self._guarded(lambda: self._call(function, handle), function)
        return await self._end(function, run, self._name, started, error)

    async def _call(self, function: Function, handle: RunHandle) -> None:
        assert function.call is not None  # noqa: S101 - a function has types or code
        arguments = [handle] if inspect.signature(function.call).parameters else []
        if is_async(function.call):
            work: Any = function.call(*arguments)
        else:
            work = asyncio.to_thread(function.call, *arguments)
        task = asyncio.ensure_future(work)
        self._calls.add(task)
        try:
            async with asyncio.timeout(function.timeout.total_seconds()):
                await task
        finally:
            self._calls.discard(task)

    async def _guarded(self, work: Callable[[], Any], function: Function) -> str | None:
        """Let the function work; what it raises becomes a class of the closed list."""
        try:
            await work()
        except TimeoutError:
            code = FailureClass.HANDLER_TIMEOUT
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            return "SHUTDOWN"  # only the call was stopped, when its grace was over
        except Exception as error:  # whatever a function raises ends its run and nothing else
            code = classify(error, idempotent=True, unknown_retryable=False).error_class
        else:
            return None
        events.function_failed(function.name, code)
        with suppress(*connect.AWAY):  # the log has it, and the record of the run will
            await raise_alert(self._pool, "function_failed", Severity.ALERT, {"function": function.name, "code": code})
        return code

    async def _begin(self, run: TimedRun, tick: Tick | None, worker_id: str) -> datetime | None:
        row = run.row(worker_id, self._settings.profile)
        if tick is None:
            started = await runs.begin(self._pool, row)
        else:
            found = await schedules.begin_run(self._pool, tick, row)
            if found is None:
                return None
            started = found
        run.begin()
        events.run_started(run.run_id, run.function, run.trigger)
        passing(CrashPoint.BEFORE_SCHEDULE_RUN)
        return started

    async def _end(
        self, function: Function, run: TimedRun, worker_id: str, started: datetime, error: str | None
    ) -> Dispatched:
        """Say how the run ended, and how much is left waiting for the next one (Q-04)."""
        run.claiming = False
        run.finish()
        if error is not None:
            run.by_error[error] += 1
        finished = await self._persist(function, run, worker_id)
        events.run_finished(run.row(worker_id, self._settings.profile), started, finished)
        return Dispatched(function.name, run, error=error)

    async def _persist(self, function: Function, run: TimedRun, worker_id: str) -> datetime:
        for pause in RETRIES:
            try:
                return await self._save(function, run, worker_id)
            except connect.AWAY as error:
                events.database_away("run", type(error).__name__, pause)
                await asyncio.sleep(pause)
        return await self._save(function, run, worker_id)

    async def _save(self, function: Function, run: TimedRun, worker_id: str) -> datetime:
        if function.types:
            run.left_waiting = (await runs.pending(self._pool, function.types)).eligible
        else:
            run.left_waiting = await self._pending(function)
        return await runs.finish(self._pool, run.row(worker_id, self._settings.profile))


def _crew(types: Sequence[JobType]) -> type[BoundedRun]:
    """Jobs that go to a provider's batch need a run that can park them."""
    if not any(job_type.lanes for job_type in types):
        return BoundedRun
    from penstock.engine.batches.submitter import Submitter  # most applications have no lane

    return Submitter
