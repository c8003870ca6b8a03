"""A process that forks workers: it has imported everything already, so a worker costs milliseconds.

Speaks JSON lines. In: {"spawn": {...}}, {"quit": true}. Out: {"pid": n} for each
spawn and {"exit": n, "status": s} for each death.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Any

from penstock.contract import crash
from penstock.engine import app as _app  # noqa: F401 - imported before the fork, for its own sake
from tests.crash import handlers

if TYPE_CHECKING:
    from collections.abc import Callable

    Child = Callable[[dict[str, Any]], None]


def child(order: dict[str, Any]) -> None:
    """Be a worker until killed, told to stop, or armed to die."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if order.get("crash_at"):
        crash.arm(crash.CrashPoint(order["crash_at"]), order.get("passages", 1))
    asyncio.run(work(order))


async def work(order: dict[str, Any]) -> None:
    """Run one worker."""
    app = handlers.build(order["dsn"], order["world"])
    worker = app.worker(dsn=order["dsn"], name=order["name"], concurrency=order.get("concurrency", 10), insecure=True)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()


def main(live: Child = child) -> None:
    """Fork on demand, and tell of deaths; *live* is the whole life of a forked process."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # A handler in Python would run when `select` returns, which for a death just before it is never
    signal.set_wakeup_fd(writer)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    buffer = b""
    while True:
        ready, _, _ = select.select([0, reader], [], [])
        if reader in ready:
            os.read(reader, 4096)
            bury()
        if 0 in ready:
            chunk = os.read(0, 65536)
            if not chunk:
                return
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                if not obey(json.loads(line), live):
                    return


def obey(order: dict[str, Any], live: Child) -> bool:
    """Carry out one line; False ends the nursery."""
    if "quit" in order:
        return False
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            live(order["spawn"])
            status = 0
        finally:
            os._exit(status)
    tell({"pid": pid})
    return True


def bury() -> None:
    """Tell of every child that has died."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        tell({"exit": pid, "status": status})


def tell(message: dict[str, Any]) -> None:
    """Say one line."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
