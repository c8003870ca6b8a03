"""The public face: declare types, enqueue, work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import PenstockError
from penstock.contract.policies import Dispatch
from penstock.contract.policy_options import policy_of
from penstock.engine.callables import refuse_callable
from penstock.engine.enqueue import Enqueueing
from penstock.engine.functions import Functions
from penstock.engine.registry import JobType, Registry
from penstock.engine.scheduling import Scheduling
from penstock.engine.worker import Worker
from penstock.settings import Settings, load_settings
from penstock.store import types as type_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Self, Unpack

    from penstock.contract.policy_options import PolicyOptions
    from penstock.engine.alerts import Sink
    from penstock.engine.batches.asking import Adapters
    from penstock.engine.batches.lane import LaneSchedule
    from penstock.engine.functions import RunHandle
    from penstock.providers.port import Adapter
    from penstock.store.connect import Pool

SHARED_FROM: Final = 4  # connections of a pool that runs may use beside enqueues


class Penstock(Enqueueing, Scheduling):
    """An application: its types, its settings and its connections.

    Use it as an async context manager, or call `open` and `close`. With no
    DSN given the embedded server is started.
    """

    def __init__(self, dsn: str | None = None, *, settings: Settings | None = None, **overrides: Any) -> None:
        if settings is None:
            settings = load_settings(**({"dsn": dsn} if dsn is not None else {}), **overrides)
        self.settings = settings
        self.types = Registry()
        self.functions = Functions(self.types, lambda: self.settings)
        self.functions.adapters = lambda: self.adapters
        self.functions.collector = self._collector_of
        self._adapters: Adapters | None = None
        self.alert_sinks: list[Sink] = []
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._dsn = dsn or settings.dsn
        super().__init__()

    # ------------------------------------------------------------------ types

    def job(
        self, name: str, *, args: Any = None, log_ids: Sequence[str] = (), **policy: Unpack[PolicyOptions]
    ) -> Callable[[Callable[..., Any]], JobType]:
        """Declare a type of one stage by its handler; the keywords are the fields of `Policy`."""
        refuse_callable(name, "job")

        def declare(handler: Callable[..., Any]) -> JobType:
            job_type = JobType(policy_of(name, policy), log_ids=log_ids)
            job_type.stage(job_type.policy.stages[0], args=args)(handler)
            return self.types.add(job_type)

        return declare

    def type(self, name: str, *, log_ids: Sequence[str] = (), **policy: Unpack[PolicyOptions]) -> JobType:
        """Declare a type of several stages; give each its handler with `.stage(name)`."""
        job_type = JobType(policy_of(name, policy), log_ids=log_ids)
        job_type.on_lane = self.functions.of_lane
        return self.types.add(job_type)

    def lane(
        self,
        name: str,
        *,
        build: Callable[..., Any],
        accept: Callable[..., Any],
        persist: Callable[..., Any] | None = None,
        schema: Mapping[str, Any] | None = None,
        around: Callable[..., Any] | None = None,
        stage: str | None = None,
        args: Any = None,
        log_ids: Sequence[str] = (),
        schedule: LaneSchedule | None = None,
        **policy: Unpack[PolicyOptions],
    ) -> JobType:
        """Declare a type whose jobs each ask a model one question, in a provider's batch or at once.

        With *schema* every answer is JSON that fits it before `accept` sees it;
        *around* gives an async context manager that is held while a single call
        is under way. The type comes with two functions, `<name>_batch_submitter` and
        `<name>_batch_collector`. For a type of several stages use
        `app.type(..., dispatch="scheduled")` and its `.lane(stage, ...)`.
        """
        policy.setdefault("dispatch", Dispatch.SCHEDULED)
        if stage is not None:
            policy.setdefault("stages", (stage,))
        declared = policy_of(name, policy)
        job_type = JobType(declared, log_ids=log_ids)
        if schedule is not None:
            job_type.lane_schedule = schedule
        job_type.on_lane = self.functions.of_lane
        job_type.lane(
            declared.stages[0], build=build, accept=accept, persist=persist, schema=schema, around=around, args=args
        )
        return self.types.add(job_type)

    def _collector_of(self, job_type: JobType) -> Callable[[RunHandle], Awaitable[None]]:
        async def collect(handle: RunHandle) -> None:
            from penstock.engine.batches.collector import make_collector  # only what a collector's run needs

            await make_collector(self, job_type)(handle)

        return collect

    @property
    def adapters(self) -> Adapters:
        """The way to the providers, from the settings; built when first asked for."""
        if self._adapters is None:
            from penstock.engine.batches.asking import from_settings

            self._adapters = from_settings(self.settings)
        return self._adapters

    def use_adapters(self, factories: Mapping[str, Callable[[str | None], Adapter]]) -> None:
        """Reach providers through *factories* instead: kind → function of the base URL. For tests and own adapters."""
        from penstock.engine.batches.asking import GivenAdapters

        self._adapters = GivenAdapters(factories)

    # ------------------------------------------------------------- connections

    async def open(self) -> Self:
        """Connect; starts the embedded server when there is no DSN."""
        await self._open_producer()
        return self

    def on_close(self, call: Callable[[], Awaitable[None]]) -> None:
        """Have *call* give back what your own code has opened, when the application closes; the last goes first."""
        self._closers.append(call)

    async def close(self) -> None:
        """Send the last pokes and disconnect, also for sync callers."""
        for call in reversed(self._closers):
            await call()
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()
        if self._adapters is not None:
            await self._adapters.close()
        if self._portals.used:
            await asyncio.to_thread(self.close_sync)

    async def dsn(self) -> str:
        """The DSN in use."""
        if self._dsn is None:
            from penstock.embedded import ensure_started  # optional, and slow to start

            server = await asyncio.to_thread(ensure_started, self.settings.home)
            self._dsn = server.url()
        return self._dsn

    @property
    def named_dsn(self) -> str | None:
        """The DSN that the code or the environment names; None stands for the embedded server."""
        return self._dsn

    def use_dsn(self, dsn: str) -> None:
        """Log in with *dsn* from now on: the command line chooses the role on the embedded server."""
        self._dsn = dsn

    @property
    def pool(self) -> Pool:
        """The open pool."""
        if self._producer is None:
            raise PenstockError("the application is not open; use `async with app:` or `await app.open()` first")
        return self._producer.pool

    def _pool_of(self, dsn: str) -> Pool | None:
        """The open pool, if it leads to *dsn*, belongs to this event loop and has room for others beside enqueues."""
        opened = self._opened()
        if opened is None or opened.dsn != dsn or opened.loop is not asyncio.get_running_loop():
            return None
        return opened.pool if opened.pool.get_max_size() >= SHARED_FROM else None

    async def __aenter__(self) -> Self:
        """Open."""
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.close()

    async def sync_types(self) -> None:
        """Write the policies of all types to the database, so that SQL callers can enqueue them."""
        await self.open()
        await type_store.sync(self.pool, [job_type.policy for job_type in self.types])

    # -------------------------------------------------------------------- work

    def worker(self, types: Sequence[str] | None = None, *, dsn: str | None = None, **options: Any) -> Worker:
        """A worker for *types*, or for all of them; call `await worker.run()`."""
        chosen = list(self.types) if types is None else [self.types.get(name) for name in types]
        target = dsn or self._dsn
        if target is None:
            raise PenstockError("open the application before making a worker on the embedded server")
        given = {"adapters": self.functions.adapters, "insecure": self.settings.insecure, **options}
        return Worker(target, chosen, self.settings, sinks=self.alert_sinks, **given)

    def on_alert(self, sink: Sink) -> Sink:
        """Register *sink* for alerts: the workers of this application call it, once for each alert of the database.

        A plain function or a coroutine function of the alert; also usable as a
        decorator. One that raises is offered the alert again, a few times.
        """
        self.alert_sinks.append(sink)
        return sink
