"""The listener: a connection of its own that hears pokes, and notices when it no longer does.

A dead LISTEN raises no error, so the connection is probed: every ten seconds
it is asked what it listens to, and an answer that does not come in time
counts as dead. After every reconnect the worker drains, as pokes were lost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.store import connect
from penstock.telemetry import events, metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.store.connect import Connection

PROBE: Final = 10.0  # seconds between probes
PATIENCE: Final = 4.0  # seconds a probe may take; together below 15
LONGEST_DELAY: Final = 30.0


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
        self._broken = asyncio.Event()
        self.delays: list[float] = []  # the reconnect delays so far, for tests and the curious

    async def start(self) -> None:
        """Listen, then return: what is enqueued from now on is heard."""
        try:
            await self._listen()
        except connect.AWAY as error:
            events.listener_lost(self._channels, type(error).__name__, 0.0)
            self._broken.set()
        self._task = asyncio.create_task(self._keep(), name="penstock-listener")

    async def stop(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._drop()

    async def _listen(self) -> None:
        async with asyncio.timeout(self._patience + connect.CONNECT_TIMEOUT):
            connection = await connect.connect(self._dsn, name="penstock listener", prepared=False)
            self._connection = connection
            connection.add_termination_listener(lambda _: self._broken.set())
            for channel in self._channels:
                await connection.add_listener(channel, self._on_notify)
        events.listener_ready(self._channels)

    def _on_notify(self, _connection: object, _pid: int, channel: str, payload: object) -> None:
        """Never blocks: a drain that is under way goes on meanwhile (D-40)."""
        self._poked(channel, payload if isinstance(payload, str) else "")
        asyncio.get_running_loop().call_soon(metrics.notified, channel)  # behind the claim that waits for the poke

    async def _keep(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._probe):
                    await self._broken.wait()
            except TimeoutError:
                if await self._alive():
                    continue
            await self._reconnect()

    async def _alive(self) -> bool:
        """Ask the very connection what it listens to; silence counts as death."""
        if self._connection is None or self._connection.is_closed():
            return False
        try:
            async with asyncio.timeout(self._patience):
                heard = await self._connection.fetch("select pg_listening_channels() as channel")
        except connect.AWAY:
            return False
        return {row["channel"] for row in heard} >= set(self._channels)

    async def _reconnect(self) -> None:
        delay = 1.0
        while True:
            self._drop()
            try:
                await self._listen()
            except connect.AWAY as error:
                events.listener_lost(self._channels, type(error).__name__, delay)
                self.delays.append(delay)
                await asyncio.sleep(delay)
                delay = min(LONGEST_DELAY, delay * 2)
                continue
            self._restored()
            return

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.terminate()
        self._broken.clear()
