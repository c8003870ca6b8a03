"""One worker process: its event loop, its signals, and how it ends.

first SIGTERM or SIGINT    take no more, finish what runs within the grace, exit 0
second one                 exit at once with 128 + the signal; leases run out and the jobs run again
too much memory, or a      drain, then begin anew: a single process replaces itself, a process of a
handler that hangs         supervisor exits with RECYCLE and gets a successor
the supervisor is gone     as the first signal
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from penstock.contract import crash
from penstock.engine.memory import rss_bytes, settle
from penstock.engine.parts import Parts
from penstock.engine.scheduler import beside
from penstock.settings import Settings, load_settings
from penstock.store import connect, schema
from penstock.telemetry import events

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import NoReturn

    from penstock.engine.app import Penstock
    from penstock.engine.worker import Worker

RECYCLE: Final = 75  # exit code of a process that wants a successor
STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
READY: Final = b"ready\n"
SUCCESSOR: Final = "PENSTOCK_SUCCESSOR"  # set for a process that has replaced itself
LAST_WORD: Final = 1.0  # seconds that what still runs has to end when everything else has
SHORTEST_LIFE: Final = 10.0  # seconds; a process that recycles sooner would do nothing but that


@dataclass(frozen=True, slots=True)
class Orders:
    """What one worker process is told to do. `settings` goes before the environment's."""

    application: str
    dsn: str
    types: list[str] | None = None
    name: str | None = None
    instance: str | None = None
    insecure: bool = False
    scheduler: bool = False  # also run what is due
    settings: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def settings_of(app: Penstock, given: dict[str, Any]) -> Settings:
    """The application's settings with what the command line says instead, checked as a whole."""
    return load_settings(**{**app.settings.model_dump(exclude_unset=True), **given})


def work(app: Penstock, orders: Orders, channel: socket.socket | None = None) -> int:
    """Work until told to stop; returns the exit code. *channel* leads to the supervisor."""
    crash.arm_from_environment()
    runner = asyncio.Runner(loop_factory=loop_factory())
    try:
        code = runner.run(_work(app, orders, channel))
    except BaseException:
        runner.close()
        raise
    if runner.run(_all_ended()):
        runner.close()  # which would wait for them without end
    return code


async def _all_ended() -> bool:
    """End what still runs; False when a handler does not let itself be ended. It goes with the process."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    _, pending = await asyncio.wait(others, timeout=LAST_WORD) if others else (None, ())
    return not pending


async def _work(app: Penstock, orders: Orders, channel: socket.socket | None) -> int:
    started = time.monotonic()
    await check_schema(orders.dsn)
    app.settings = settings_of(app, orders.settings)
    worker = app.worker(orders.types, dsn=orders.dsn, name=orders.name, insecure=orders.insecure)
    if orders.instance is not None:
        worker.instance = UUID(orders.instance)
    obey_signals(worker.stop)
    parts = Parts(worker.part_ended)
    settling = parts.start(settle_when_ready(worker), "settling")
    attending = None if channel is None else parts.start(_attend(channel, worker), "line to the supervisor")
    if orders.scheduler:
        await beside(worker, app.scheduler(dsn=orders.dsn, insecure=orders.insecure))
    else:
        await worker.run()
    await parts.end(settling)
    await parts.end(attending)
    await app.close()
    if not worker.recycle:
        return 0
    pause = _pause(time.monotonic() - started)
    events.process_recycled(worker.worker_id, rss_bytes(), round(pause, 1))
    await asyncio.sleep(pause)
    return RECYCLE


async def settle_when_ready(worker: Worker) -> None:
    """Spare the garbage collector what a worker has once it has started."""
    await worker.ready.wait()
    settle()


def _pause(lived: float) -> float:
    """A process that replaces itself waits when its predecessor did so moments ago: the limit may be too low."""
    return max(0.0, SHORTEST_LIFE - lived) if SUCCESSOR in os.environ else 0.0


async def check_schema(dsn: str) -> None:
    """Refuse a server that is away, and a schema that does not fit this code."""
    connection = await connect.connect(dsn, prepared=False)  # a few statements once: nothing to prepare for
    try:
        await schema.require_current(connection)
    finally:
        await connection.close()


def obey_signals(stop: Callable[[str], None]) -> None:
    """The first signal asks *stop*, the second ends the process, also when the event loop is blocked."""
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def on_signal(number: int, _frame: object) -> None:
        seen.append(number)
        if len(seen) > 1:
            os._exit(128 + number)
        loop.call_soon_threadsafe(stop, signal.Signals(number).name)

    for number in STOPPING:
        signal.signal(number, on_signal)


async def _attend(channel: socket.socket, worker: Worker) -> None:
    """Tell the supervisor when the worker is ready; stop when the supervisor is gone."""
    loop = asyncio.get_running_loop()
    channel.setblocking(False)

    async def announce() -> None:
        await worker.ready.wait()
        with suppress(OSError):  # it is gone: the other half of this notices
            await loop.sock_sendall(channel, READY)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(announce())
        try:
            while await loop.sock_recv(channel, 1024):
                continue
        except OSError:
            pass  # closed from the other side: the same as its end
        worker.stop("supervisor gone")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of uvloop where it is installed (extra `uvloop`), else the standard one."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def leave(code: int) -> NoReturn:
    """End the process with *code*, whatever its threads do: nothing that they hold counts any more."""
    if code == RECYCLE and "PENSTOCK_SLOT" not in os.environ:
        _flush()
        os.environ[SUCCESSOR] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very command again
    atexit._run_exitfuncs()  # noqa: SLF001 - lets go of the embedded server; sys.exit would wait for hung threads
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
