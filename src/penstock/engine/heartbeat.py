"""The heartbeat: renews leases from a thread and a connection of its own.

A handler may block the event loop for longer than its lease; the pool may be
exhausted; the database may be slow. None of that may cost a lease, so the
heartbeat shares nothing with the rest but a dict that it copies.
"""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.contract.failure_signals import sqlstate
from penstock.store import claims as store
from penstock.store import connect, workers
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from penstock.engine.running import Running
    from penstock.store.connect import Connection

BEAT: Final = 15.0  # seconds between words of the worker itself
RETRY: Final = 1.0  # seconds between tries while the database is away
GRACE: Final = 5.0  # a handler past its time limit is renewed no longer than this
MOST_BUGS: Final = 3  # in a row; then the worker ends and says why
SLOW: Final = 10.0  # seconds after which a renewal counts as failed


class Heartbeat:
    """Renews every held claim at a third of its lease, and the worker's own row."""

    def __init__(
        self,
        dsn: str,
        who: workers.Identity,
        held: dict[UUID, Running],
        lost: Callable[[list[Running]], None],
        measure: Callable[[], int | None],
        died: Callable[[BaseException], None],
        *,
        prepared: bool = True,
    ) -> None:
        self._dsn = dsn
        self._prepared = prepared
        self._who = who
        self._held = held
        self._lost = lost  # called in this thread: hand over to the loop
        self._measure = measure
        self._died = died  # likewise
        self._bugs = 0  # rounds in a row that something else than the database ended
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name="penstock-heartbeat", daemon=True)
        self._connection: Connection | None = None
        self._next_beat = 0.0
        self._first = 0.0
        self.period = BEAT

    def start(self, shortest_lease: timedelta, *, at_once: bool = True) -> None:
        """Begin; leases are looked at every ninth of the shortest one, the worker speaks at least every 15 s.

        Without *at_once* the first look, and the connection for it, come when
        that time is over: most short runs have ended before.
        """
        self.period = min(BEAT, max(0.02, shortest_lease.total_seconds() / 9))
        self._first = 0.0 if at_once else self.period
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the last thing a worker does."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout=SLOW + 5)

    def _main(self) -> None:
        """Rounds until the end; a thread that ends before takes its worker along, whose leases nobody would renew."""
        try:
            self._run()
        except BaseException as error:
            if not self._stopping:
                events.part_ended("heartbeat", type(error).__name__)
                self._died(error)

    def _run(self) -> None:
        self._wake.wait(self._first)
        with asyncio.Runner() as runner:
            try:
                while not self._stopping:
                    pause = runner.run(self._round())
                    self._wake.wait(pause)
            finally:
                if self._connection is not None:
                    runner.run(self._close())

    async def _round(self) -> float:
        """One look at all leases; returns the seconds until the next.

        Whatever the database says, there is a next: a read-only server, a right
        that is missing for a moment, an error that nobody has met. Anything else
        that goes wrong is a bug; one that comes again and again is raised.
        """
        try:
            connection = await self._connected()
            async with asyncio.timeout(SLOW):
                await self._renew_due(connection)
                await self._beat(connection)
        except Exception as error:
            await self._close()
            self._give_up_expired()
            self._note(error)
            return min(RETRY, self.period)
        self._bugs = 0
        return self.period

    def _note(self, error: Exception) -> None:
        if isinstance(error, connect.AWAY) or sqlstate(error) is not None:
            events.database_away("heartbeat", type(error).__name__, RETRY)
            return
        self._bugs += 1
        if self._bugs >= MOST_BUGS:
            raise error
        events.internal_error("heartbeat", type(error).__name__)

    async def _renew_due(self, connection: Connection) -> None:
        now = time.monotonic()
        due = [r for r in self._held.copy().values() if self._is_due(r, now)]
        if not due:
            return
        asked = time.monotonic()
        held = [(r.claim.job_id, r.claim.claim_seq, timedelta(seconds=r.lease)) for r in due]
        owned = await store.renew(connection, self._who.worker_id, held)
        for running in due:
            if owned.get(running.claim.job_id):
                running.renewed = asked
        gone = [running for running in due if running.claim.job_id not in owned]
        if gone:
            self._lost(gone)

    @staticmethod
    def _is_due(running: Running, now: float) -> bool:
        if running.deadline is not None and now > running.deadline + GRACE:
            return False  # a hung handler: let its lease go
        return now - running.renewed >= running.lease / 3

    def _give_up_expired(self) -> None:
        """While the database cannot be asked, a lease that has surely run out counts as lost."""
        now = time.monotonic()
        gone = [r for r in self._held.copy().values() if now - r.renewed > r.lease]
        if gone:
            self._lost(gone)

    async def _beat(self, connection: Connection) -> None:
        now = time.monotonic()
        if now < self._next_beat:
            return
        await workers.beat(connection, self._who, running=len(self._held), rss_bytes=self._measure())
        self._next_beat = now + BEAT

    async def _connected(self) -> Connection:
        """The connection; a lost one is made anew.

        Its first renewal takes one round trip more than later ones, and not the
        eight that a driver which asks about arrays would take: on a slow database
        they would eat up the time that a renewal has (see `store.array_types`).
        """
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect.connect(
                self._dsn, name=f"penstock heartbeat {self._who.worker_id}", prepared=self._prepared
            )
        return self._connection

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
