"""Eight workers as forked processes, each writing down what it ran: `python -m tests.engine.scale.crew DSN FOLDER 8`.

They work until the parent's standard input ends; then they stop and write
their lists, one line for each execution.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from penstock import Job, Penstock


def build(dsn: str, ran: list[str]) -> Penstock:
    """The application; *ran* gets a line for every execution."""
    app = Penstock(dsn)

    @app.job("noted")
    async def noted(job: Job, args: dict[str, Any]) -> None:
        ran.append(f"{job.job_id} {job.claim_seq}")

    return app


async def work(dsn: str, name: str) -> list[str]:
    """Run one worker until SIGTERM; returns what it ran."""
    ran: list[str] = []
    worker = build(dsn, ran).worker(dsn=dsn, name=name, concurrency=50, insecure=True)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()
    return ran


def fork(dsn: str, folder: Path, name: str) -> int:
    """Start one worker; returns its pid."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            lines = asyncio.run(work(dsn, name))
            (folder / name).write_text("".join(f"{line}\n" for line in lines))
            status = 0
        finally:
            os._exit(status)
    return pid


def main() -> int:
    """Fork, wait for the end of input, stop everybody; 0 when all ended well."""
    dsn, folder, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    pids = [fork(dsn, folder, f"worker-{n}") for n in range(count)]
    sys.stdin.read()
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    return max(os.waitpid(pid, 0)[1] for pid in pids) and 1


if __name__ == "__main__":
    sys.exit(main())
