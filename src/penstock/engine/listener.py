"""The listener: a connection of its own that hears pokes, and notices when it no longer does.

A dead LISTEN raises no error, so the connection is probed: every ten seconds
it is asked what it listens to, and an answer that does not come in time
counts as dead. After every reconnect the worker drains, as pokes were lost.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.engine.parts import Parts
from penstock.store import connect
from penstock.telemetry import events, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.store.connect import Connection

PROBE: Final = 10.0  # seconds between probes
PATIENCE: Final = 4.0  # seconds a probe may take; together below 15
FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 1.0


class Listener:
    """LISTENs on *channels* and calls *poked(channel, payload)* for each notification."""

    def __init__(
        self,
        dsn: str,
        channels: Sequence[str],
        *,
        poked: Callable[[str, str], None],
        restored: Callable[[], None],
        probe: float = PROBE,
        patience: float = PATIENCE,
    ) -> None:
        self._dsn = dsn
        self._channels = sorted(set(channels))
        self._poked = poked
        self._restored = restored
        self._probe = probe
        self._patience = patience
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._parts = Parts(self._on_ended)
        self._pausing: asyncio.TimerHandle | None = None
        self._doubted = asyncio.Event()
        self.delays: deque[float] = deque(maxlen=100)  # the last reconnect delays, for tests and the curious

    async def start(self) -> None:
        """Listen, then return: what is enqueued from now on is heard."""
        try:
            await self._listen()
        except connect.AWAY as error:
            events.listener_lost(self._channels, type(error).__name__, 0.0)
            self.doubt()
        self._begin()

    async def stop(self) -> None:
        """Stop listening."""
        if self._pausing is not None:
            self._pausing.cancel()
        await self._parts.end(self._task)
        self._drop()

    def doubt(self) -> None:
        """Ask at once whether it still hears: it was cut, or others have lost the same server."""
        self._doubted.set()

    def _begin(self) -> None:
        self._task = self._parts.start(self._keep(), "listener", lasting=True)

    def _on_ended(self, _part: str, _error: BaseException) -> None:
        """Begin again, with a new connection: it may have ended anywhere."""
        self._drop()
        self.doubt()
        self._pausing = asyncio.get_running_loop().call_later(FIRST_DELAY, self._begin)

    async def _listen(self) -> None:
        async with asyncio.timeout(self._patience + connect.CONNECT_TIMEOUT):
            connection = await connect.connect(self._dsn, name="penstock listener", prepared=False)
            self._connection = connection
            connection.add_termination_listener(lambda _: self.doubt())
            for channel in self._channels:
                await connection.add_listener(channel, self._on_notify)
        events.listener_ready(self._channels)

    def _on_notify(self, _connection: object, _pid: int, channel: str, payload: object) -> None:
        """Never blocks: a drain that is under way goes on meanwhile (D-40)."""
        self._poked(channel, payload if isinstance(payload, str) else "")
        asyncio.get_running_loop().call_soon(metrics.notified, channel)  # behind the claim that waits for the poke

    async def _keep(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._probe):
                    await self._doubted.wait()
            self._doubted.clear()
            if not await self._alive():
                await self._reconnect()

    async def _alive(self) -> bool:
        """Ask the very connection what it listens to; silence counts as death."""
        if self._connection is None or self._connection.is_closed():
            return False
        try:
            async with asyncio.timeout(self._patience):
                heard = await self._connection.fetch("select pg_listening_channels() as channel")
        except Exception:  # whatever it says, it is not what was asked for
            return False
        return {row["channel"] for row in heard} >= set(self._channels)

    async def _reconnect(self) -> None:
        """Try until it listens again; a try costs little, so a long outage makes the pauses no longer than a second."""
        delay = FIRST_DELAY
        while True:
            self._drop()
            try:
                await self._listen()
            except Exception as error:
                pause = delay * random.uniform(0.5, 1)  # noqa: S311 - so that not all come at the same moment
                events.listener_lost(self._channels, type(error).__name__, round(pause, 3))
                self.delays.append(pause)
                await asyncio.sleep(pause)
                delay = min(LONGEST_DELAY, delay * 2)
                continue
            self._restored()
            return

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.terminate()
