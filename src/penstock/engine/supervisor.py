"""The supervisor: several worker processes, kept running, stopped together, counted as one.

Each process has a slot, and with it a name that stays the same however often
the process is replaced (C-54). Processes are started afresh, never forked, and
stand in sessions of their own, so that Ctrl-C on a terminal reaches the
supervisor alone, which passes it on once.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from penstock.engine import shared_folder
from penstock.engine.parts import Parts
from penstock.engine.process import READY, RECYCLE, SHORTEST_LIFE, check_schema, loop_factory
from penstock.store import connect, workers
from penstock.telemetry import events
from penstock.telemetry.metrics import SLOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.engine.process import Orders
    from penstock.settings import Settings

CHANNEL: Final = "PENSTOCK_CHANNEL"  # the file descriptor on which a process finds its orders
SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
KILLED: Final = 1  # exit code when processes had to be killed after the grace
NAME_TAKEN: Final = 6
REFUSALS: Final = frozenset({1, 2, 3, 4, 5, NAME_TAKEN})  # what a process says when starting it again would not help
FIRST_DELAY: Final = 1.0
LONGEST_DELAY: Final = 30.0
LONG_LIFE: Final = 60.0  # a process that lived so long failed for a reason of its own: begin with the first delay
HEAD_START: Final = 3.0  # seconds in which the first process may find out what is wrong for all
AFTER_GRACE: Final = 15.0  # seconds beyond the grace after which a process is killed


class Slot:
    """One process at a time, under one name."""

    def __init__(self, number: int, orders: Orders) -> None:
        self.number = number
        self.orders = orders
        self.process: asyncio.subprocess.Process | None = None
        self.ready = asyncio.Event()  # it has been, at least once
        self.delay = 0.0

    def after(self, exit_code: int, lived: float) -> float:
        """How long to wait before the next process: longer each time, unless the last one lived long."""
        if exit_code == RECYCLE and lived >= SHORTEST_LIFE:
            self.delay = 0.0
        elif lived >= LONG_LIFE or self.delay == 0.0:
            self.delay = FIRST_DELAY
        else:
            self.delay = min(self.delay * 2, LONGEST_DELAY)
        return self.delay


class Supervisor:
    """Keeps *count* processes running that all have the same *orders* but for their names."""

    def __init__(self, orders: Orders, count: int, settings: Settings) -> None:
        self._orders = orders
        self._count = count
        self._settings = settings
        self._named = orders.name is not None
        self._slots: list[Slot] = []
        self._stopping = asyncio.Event()
        self._exit_code = 0
        self._folder: Path | None = None

    async def run(self) -> int:
        """Supervise until told to stop, or until a process says that it cannot work; returns the exit code."""
        await check_schema(self._orders.dsn)
        names = await self._names(self._count)
        self._slots = [
            Slot(number, replace(self._orders, name=name, instance=str(uuid4())))
            for number, name in enumerate(names, start=1)
        ]
        with self._metrics() as shared:
            first, *others = self._slots
            async with asyncio.TaskGroup() as tasks:
                going = tasks.create_task(self._keep(first, shared))
                await self._head_start(first, going)
                for slot in others:
                    tasks.create_task(self._keep(slot, shared))
        return self._exit_code

    def stop(self, reason: str) -> None:
        """Pass the wish to stop on to every process."""
        if not self._stopping.is_set():
            events.supervisor_stopping(sum(slot.process is not None for slot in self._slots), reason)
            self._stopping.set()
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End every process at once; their leases run out and their jobs run again."""
        self._signal(signal.SIGKILL)
        if self._folder is not None:
            shared_folder.remove(self._folder)

    def _signal(self, number: signal.Signals) -> None:
        for slot in self._slots:
            if slot.process is not None and slot.process.returncode is None:
                with suppress(ProcessLookupError):
                    slot.process.send_signal(number)

    async def _names(self, count: int) -> list[str]:
        """`<name>-<slot>`; without a name the first free ones of this host."""
        if self._named:
            return [f"{self._orders.name}-{number}" for number in range(1, count + 1)]
        connection = await connect.connect(self._orders.dsn, prepared=False)
        try:
            return await workers.free_names(connection, socket.gethostname()[:60], count)
        finally:
            await connection.close()

    async def _head_start(self, slot: Slot, going: asyncio.Task[None]) -> None:
        """Wait until the first process is ready or has said why it cannot work, so that it is said once."""
        ready = asyncio.create_task(slot.ready.wait())
        await asyncio.wait((ready, going), timeout=HEAD_START, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()

    async def _keep(self, slot: Slot, shared: Path | None) -> None:
        """One process after the other in *slot*, until the supervisor stops."""
        while not self._stopping.is_set():
            started = time.monotonic()
            exit_code = await self._one(slot, shared)
            if self._stopping.is_set():
                return
            if exit_code in REFUSALS and not slot.ready.is_set():
                if exit_code == NAME_TAKEN and not self._named:  # somebody else was faster
                    slot.orders = replace(slot.orders, name=(await self._names(self._count))[-1])
                    continue
                self._exit_code = exit_code
                self.stop("refused")
                return
            pause = slot.after(exit_code, time.monotonic() - started)
            events.process_ended(str(slot.orders.name), slot.number, exit_code, pause)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    async def _one(self, slot: Slot, shared: Path | None) -> int:
        """Start a process, hand it its orders, and wait for its end."""
        ours, theirs = socket.socketpair()
        try:
            slot.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "penstock", "worker",
                env={**os.environ, **_environment(slot, theirs, shared)},
                pass_fds=(theirs.fileno(),), stdin=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            theirs.close()
            events.process_started(str(slot.orders.name), slot.number, slot.process.pid)
            ours.setblocking(False)
            if self._stopping.is_set():  # the wish came while it was starting
                self._signal(signal.SIGTERM)
            return await self._attend(slot, slot.process, ours)
        finally:
            ours.close()
            theirs.close()

    async def _attend(self, slot: Slot, process: asyncio.subprocess.Process, channel: socket.socket) -> int:
        parts = Parts(lambda _part, _error: _kill(process))  # one that got no orders, or outlives its grace unseen
        hearing = parts.start(_hear(slot, channel), "line to a process")
        killing = parts.start(self._kill_late(process), "grace of a process")
        try:
            return await process.wait()
        finally:
            await parts.end(hearing)
            await parts.end(killing)

    async def _kill_late(self, process: asyncio.subprocess.Process) -> None:
        """A process that does not end within the grace is killed; its leases do the rest."""
        await self._stopping.wait()
        await asyncio.sleep(self._settings.grace_seconds + AFTER_GRACE)
        self._exit_code = self._exit_code or KILLED
        _kill(process)

    @contextmanager
    def _metrics(self) -> Iterator[Path | None]:
        """Serve what all processes count; each slot writes files of its own in a private folder."""
        if self._settings.metrics_port is None:
            yield None
            return
        from penstock.telemetry import exposition

        folder = self._folder = shared_folder.make()
        server = None
        try:
            host, port = self._settings.metrics_host, self._settings.metrics_port
            server, _ = exposition.serve(host, port, self._orders.dsn, folder)
            yield folder
        finally:
            if server is not None:
                server.shutdown()
                server.server_close()
            shared_folder.remove(folder)


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):  # it has ended this very moment
        process.kill()


async def _hear(slot: Slot, channel: socket.socket) -> None:
    """Give the orders and note when the process is ready."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        await loop.sock_sendall(channel, json.dumps(slot.orders.to_dict()).encode() + b"\n")
        if await loop.sock_recv(channel, len(READY)):
            slot.ready.set()


def _environment(slot: Slot, channel: socket.socket, shared: Path | None) -> dict[str, str]:
    given = {CHANNEL: str(channel.fileno()), SLOT: str(slot.number)}
    return given if shared is None else {**given, SHARED: str(shared)}


def supervise(orders: Orders, count: int, settings: Settings) -> int:
    """Run *count* processes until told to stop; returns the exit code."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_supervise(orders, count, settings))


async def _supervise(orders: Orders, count: int, settings: Settings) -> int:
    supervisor = Supervisor(orders, count, settings)
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def on_signal(number: int) -> None:
        seen.append(number)
        if len(seen) > 1:
            supervisor.kill()
            os._exit(128 + number)
        supervisor.stop(signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return await supervisor.run()
