"""A worker's name: taken over from an owner that has died, refused where the owner lives.

A worker that was killed cannot free its name. On its own machine the next one
sees that the process is gone; elsewhere only silence tells, so it waits for
that, for as long as a living owner could be silent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import WorkerNameTaken
from penstock.engine import births
from penstock.store import workers
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime
    from uuid import UUID

    from penstock.store.connect import Pool

    Register = Callable[[Pool, str, UUID | None], Awaitable[workers.Identity]]

PAUSE: Final = 1.0  # seconds between two tries
PATIENCE: Final = workers.ALIVE.total_seconds() + 10.0


async def take(pool: Pool, name: str, register: Register, stopping: Callable[[], bool]) -> workers.Identity:
    """Take *name*; an owner that lives, or speaks while we wait, keeps it and we are refused.

    *register* takes the name, also from the instance that is given as dead, or raises `WorkerNameTaken`.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    dead: UUID | None = None
    heard: datetime | None = None
    while True:
        try:
            return await register(pool, name, dead)
        except WorkerNameTaken:
            owner = await workers.owner(pool, name)
            if owner is None:
                continue
            gone = births.is_gone(owner.pid, owner.process)
            if gone and owner.instance != dead:
                dead = owner.instance
                continue
            spoke = heard is not None and owner.heartbeat_at != heard
            lives = births.is_here(owner.process) and not gone  # else a worker of another login, soon silent
            if lives or spoke or stopping() or loop.time() > until:
                raise
            if heard is None:
                heard = owner.heartbeat_at
                events.worker_name_awaited(name, owner.host, PATIENCE)
        await asyncio.sleep(PAUSE)
