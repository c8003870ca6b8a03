"""The part of an application's public face that is about functions, runs and schedules."""

from __future__ import annotations

import os
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.contract.claims import Trigger
from penstock.contract.errors import PenstockError
from penstock.engine.cadences import Cadence
from penstock.engine.callables import refuse_callable
from penstock.engine.dispatcher import Dispatched, Dispatcher
from penstock.engine.functions import Function, Functions
from penstock.engine.scheduler import Scheduler
from penstock.store import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from penstock.engine.registry import JobType, Registry
    from penstock.settings import Settings
    from penstock.store.connect import Pool


class Scheduling:
    """What `Penstock` can say about bounded work."""

    settings: Settings
    types: Registry
    functions: Functions
    _dsn: str | None

    def function(
        self,
        name: str,
        *,
        every: timedelta | float | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Function]:
        """Declare a function by its code, which may take a `RunHandle`; *options* are fields of `Function`."""
        refuse_callable(name, "function")
        cadence = _cadence(every, cron, timezone)

        def declare(call: Callable[..., Any]) -> Function:
            return self.functions.add(Function(name, call=call, cadence=cadence, **options))

        return declare

    def job_function(
        self,
        name: str,
        *types: str | JobType,
        every: timedelta | float | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
        **options: Any,
    ) -> Function:
        """Declare a function that runs the waiting jobs of *types*, within their caps."""
        names = tuple(t if isinstance(t, str) else t.name for t in types)
        return self.functions.add(Function(name, types=names, cadence=_cadence(every, cron, timezone), **options))

    def schedule(
        self,
        name: str,
        job_type: str | JobType,
        payload: Any = None,
        *,
        every: timedelta | float | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
    ) -> None:
        """Declare a schedule that enqueues one job of *job_type* at every tick."""
        cadence = _cadence(every, cron, timezone) or Cadence()  # which refuses to be neither
        self.functions.enqueue(name, job_type if isinstance(job_type, str) else job_type.name, payload, cadence)

    def scheduler(self, *, dsn: str | None = None, **options: Any) -> Scheduler:
        """A scheduler of the declared schedules; call `await scheduler.run()`."""
        given = {"insecure": self.settings.insecure, **options}
        return Scheduler(self._target(dsn), self.types, self.functions, self.settings, **given)

    async def run_function(
        self, name: str, *, trigger: Trigger = Trigger.ADMIN, dsn: str | None = None, **options: Any
    ) -> Dispatched:
        """Run one function once, now, in this process; nothing pending skips it."""
        function = self.functions.get(name)
        async with self.dispatching(dsn=dsn, **options) as dispatcher:
            await dispatcher.refuse_strangers(admin=trigger is Trigger.ADMIN)
            done = await dispatcher.dispatch(function, trigger)
            while done.again and trigger is Trigger.SCHEDULE:  # by hand it is one run
                done = await dispatcher.dispatch(function, Trigger.FOLLOW_UP)
            return done

    @asynccontextmanager
    async def dispatching(self, *, dsn: str | None = None, **options: Any) -> AsyncIterator[Dispatcher]:
        """A dispatcher of the declared functions, on the connections of an open application if *dsn* is its own."""
        target = self._target(dsn)
        who = f"{socket.gethostname()[:60]}:{os.getpid()}"
        async with AsyncExitStack() as own:
            pool = self._pool_of(target)
            if pool is None:
                prepared = self.settings.prepared_statements
                pool = await connect.create_pool(target, size=2, name="penstock run", prepared=prepared)
                own.push_async_callback(pool.close)
            given = {"insecure": self.settings.insecure, **options}
            yield Dispatcher(target, pool, self.functions, self.settings, name=who, **given)

    def _pool_of(self, dsn: str) -> Pool | None:
        """A pool that is open already."""
        raise NotImplementedError

    def _target(self, dsn: str | None) -> str:
        target = dsn or self._dsn
        if target is None:
            raise PenstockError("open the application first, so that the embedded server is started")
        return target


def _cadence(every: timedelta | float | None, cron: str | None, timezone: str) -> Cadence | None:
    if every is None and cron is None:
        return None
    return Cadence(timedelta(seconds=every) if isinstance(every, int | float) else every, cron, timezone)
