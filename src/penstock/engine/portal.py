"""A way for callers without an event loop: a thread that has one, with connections of its own.

It is started by the first sync enqueue that needs it and ends with
`app.close_sync()`, with the application, or with the process, whichever comes
first. A poke is handed over and not waited for; an enqueue waits for its answer.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.contract.errors import PenstockError
from penstock.store import connect
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.enqueue import Enqueueing
    from penstock.engine.producer import Producer

    Opener = Callable[[], Awaitable[Producer]]

T = TypeVar("T")
CLOSE_SECONDS: Final = 5.0


class Portal:
    """One thread, one event loop, one producer that is opened when it is first needed."""

    def __init__(self, opener: Opener) -> None:
        self.process = os.getpid()
        self._opener = opener
        self._producer: Producer | None = None
        self._loop = asyncio.new_event_loop()
        self._opening = asyncio.Lock()
        self._thread = threading.Thread(target=self._run, name="penstock-portal", daemon=True)
        self._thread.start()

    def call(self, work: Callable[[Producer], Awaitable[T]]) -> T:
        """Do *work* in the loop of the portal and wait for what it comes to."""
        return asyncio.run_coroutine_threadsafe(self._do(work), self._loop).result()

    def poke(self, channel: str | None, job_type: str) -> None:
        """Send a poke; returns at once, and a poke that cannot be sent is dropped: the poll finds the job."""
        asyncio.run_coroutine_threadsafe(self._poke(channel, job_type), self._loop)

    def close(self) -> None:
        """Send the last pokes, disconnect and end the thread. In a forked child there is nothing to end."""
        if os.getpid() != self.process or not self._thread.is_alive():
            return
        if threading.current_thread() is self._thread:  # the garbage collector may call from anywhere
            self._loop.call_soon(self._loop.stop)
            return
        closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        try:
            closing.result(CLOSE_SECONDS)
        except TimeoutError:
            closing.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _do(self, work: Callable[[Producer], Awaitable[T]]) -> T:
        return await work(await self._open())

    async def _open(self) -> Producer:
        async with self._opening:
            if self._producer is None:
                self._producer = await self._opener()
            return self._producer

    async def _poke(self, channel: str | None, job_type: str) -> None:
        try:
            (await self._open()).poke(channel, job_type)
        except connect.AWAY as error:
            events.database_away("poke", type(error).__name__, 0.0)

    async def _close(self) -> None:
        # Pokes that were handed over just now are tasks of the loop already; they go first.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=1)
        if self._producer is not None:
            await self._producer.close()


class Portals:
    """The portal of one application, made on demand: in every process anew, as threads do not survive a fork."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._lock = threading.Lock()
        self._portal: Portal | None = None
        self._finalizer: Any = None

    def call(self, work: Callable[[Producer], Awaitable[T]]) -> T:
        """See `Portal.call`."""
        return self._get().call(work)

    def poke(self, channel: str | None, job_type: str) -> None:
        """See `Portal.poke`."""
        self._get().poke(channel, job_type)

    @property
    def used(self) -> bool:
        """Whether there is one."""
        return self._portal is not None

    def close(self) -> None:
        """End the portal, if there is one; the next call makes another."""
        with self._lock:
            portal, self._portal = self._portal, None
        if portal is not None:
            self._finalizer.detach()
            portal.close()

    def _get(self) -> Portal:
        with self._lock:
            if self._portal is None or self._portal.process != os.getpid():
                self._portal = Portal(self._opener)
                self._finalizer = weakref.finalize(self, self._portal.close)
            return self._portal


def weak_opener(app: Enqueueing) -> Opener:
    """How a portal opens a producer for *app* without keeping *app* alive."""
    reference = weakref.ref(app)

    async def open_producer() -> Producer:
        living = reference()
        if living is None:
            raise PenstockError("the application is gone; keep a reference to it while you enqueue")
        return await living.make_producer()

    return open_producer
