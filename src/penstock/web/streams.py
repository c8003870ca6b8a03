"""Live streams: Server-Sent Events of the status changes of one's own home (C-56).

One listener for the whole process hears that something has changed somewhere:
a poke has no data, as any role can hear it. Each stream then reads for itself
what its own home may see, as `penstock_frontend` under row-level security, and
shows its key again in the same transaction: a revoked key gets not a row more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.apps.rewrite.statuses import CHANNEL
from penstock.engine.listener import Listener
from penstock.store import api_keys, connect
from penstock.telemetry import web_events
from penstock.web import counts
from penstock.web.problems import Refused
from penstock.web.watch import Watch, event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
    from uuid import UUID

    from penstock.store.claims import Transaction
    from penstock.store.connect import Pool
    from penstock.web.keys import Caller


HEARTBEAT: Final = 15.0  # seconds without a word; also how long a lost poke can go unnoticed
PAUSE: Final = 0.25  # seconds between two looks of one stream, however many pokes come
PATIENCE: Final = 10.0  # seconds that a reader may take for what it was sent
RETRY_MS: Final = 3000  # when a client that lost its stream comes back
MOST_OF_KEY: Final = 10


class KeyGone(Exception):
    """The key of a stream is no longer accepted."""


class Streams:
    """All streams of one process, and the one listener that wakes them."""

    def __init__(
        self,
        pool: Callable[[], Pool],
        *,
        listen_dsn: str,
        most: int,
        heartbeat: float = HEARTBEAT,
        pause: float = PAUSE,
        patience: float = PATIENCE,
    ) -> None:
        self._pool = pool
        self._most = most
        self._open: Counter[str] = Counter()
        self._news = asyncio.Event()
        self._listener = Listener(
            listen_dsn, [CHANNEL], poked=lambda _channel, _payload: self.wake(), restored=self.wake
        )
        self.heartbeat = heartbeat
        self.pause = pause
        self.patience = patience
        self.closing = False

    async def start(self) -> None:
        """Listen; while that fails streams still look at every heartbeat."""
        await self._listener.start()

    async def stop(self) -> None:
        """End every stream and stop listening."""
        self.close()
        await self._listener.stop()

    def close(self) -> None:
        """Let every stream say goodbye."""
        self.closing = True
        self.wake()

    def wake(self) -> None:
        """Something may have changed: every stream looks."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def news(self) -> asyncio.Event:
        """Set by the next poke; taken before a look, so that no poke falls between look and wait."""
        return self._news

    @property
    def count(self) -> int:
        """Open streams."""
        return self._open.total()

    @contextmanager
    def seat(self, key_id: str) -> Iterator[None]:
        """A place for one more stream; when there is none the request is refused."""
        if self.closing or self.count >= self._most:
            raise Refused("streams_full", headers={"Retry-After": "10"})
        if self._open[key_id] >= MOST_OF_KEY:
            raise Refused("too_many_streams")
        self._open[key_id] += 1
        counts.streams_open.inc()
        try:
            yield
        finally:
            self._open[key_id] -= 1
            self._open += Counter()  # drops the keys that have none
            counts.streams_open.dec()

    async def look(self, caller: Caller, read: Callable[[Transaction], Awaitable[bytes]]) -> bytes:
        """Show the key again, then *read*, in one transaction."""
        async with self._pool().acquire() as connection, connection.transaction():
            if await api_keys.check(connection, caller.shown) is None:
                raise KeyGone
            return await read(connection)


class Stream:
    """One caller's stream: what is, then what changes."""

    def __init__(self, streams: Streams, caller: Caller, home_id: UUID, *, last_event: int | None) -> None:
        self._streams = streams
        self._caller = caller
        self._watch = Watch(home_id, last_event)
        self._looked = 0.0

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """What is sent, until the key or the server ends it. Raises before the first chunk or never."""
        news = self._streams.news()
        try:
            first = await self._streams.look(self._caller, self._watch.first)
        except KeyGone:
            raise Refused("key_refused") from None
        yield f"retry: {RETRY_MS}\n\n".encode() + first + event("live", {})
        while not self._streams.closing:
            await self._wait(news)
            news = self._streams.news()
            try:
                yield await self._look() or b": still here\n\n"
            except KeyGone:
                yield event("end", {"code": "key_refused"})
                return
        yield event("end", {"code": "closing"})

    async def _look(self) -> bytes:
        self._looked = asyncio.get_running_loop().time()
        try:
            return await self._streams.look(self._caller, self._watch.more)
        except connect.AWAY:
            return b""  # the next poke or heartbeat looks again

    async def _wait(self, news: asyncio.Event) -> None:
        """Until a poke or the heartbeat; then as long as the last look is too recent."""
        try:
            async with asyncio.timeout(self._streams.heartbeat):
                await news.wait()
        except TimeoutError:
            return
        early = self._looked + self._streams.pause - asyncio.get_running_loop().time()
        if early > 0 and not self._streams.closing:
            await asyncio.sleep(early)


def ended(request_id: str, reason: str) -> None:
    """Count how a stream ended; what this side did is logged."""
    counts.streams_ended_total.labels(reason).inc()
    if reason in ("slow", "broke"):
        web_events.stream_dropped(request_id, reason)
