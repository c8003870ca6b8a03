"""The workers that are alive, by their own word every few seconds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import WorkerNameTaken
from penstock.store.statements import sql

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    import asyncpg

    from penstock.store.claims import Db

ALIVE: Final = timedelta(seconds=60)  # a heartbeat this old no longer counts


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a worker says it is. `instance` tells two processes of one name apart."""

    worker_id: str
    instance: UUID
    host: str
    pid: int
    version: str
    process: str | None = None  # which process the pid was, where that can be told


@dataclass(frozen=True, slots=True)
class Owner:
    """Who has a name."""

    instance: UUID
    host: str
    pid: int
    process: str | None
    heartbeat_at: datetime


async def register(
    db: Db,
    who: Identity,
    types: list[str],
    concurrency: int,
    *,
    notify: str | None = None,
    poll_seconds: float | None = None,
    dead: UUID | None = None,
) -> None:
    """Take the worker's name; a name whose owner is alive, and not known to be *dead*, raises `WorkerNameTaken`."""
    me = (who.worker_id, who.instance, who.host, who.pid, who.version)
    rest = (types, concurrency, ALIVE, notify, poll_seconds, who.process, dead)
    taken = await db.fetchval(sql("workers/register"), *me, *rest)
    if taken is None:
        raise WorkerNameTaken(who.worker_id)


async def owner(db: Db, name: str) -> Owner | None:
    """Who has *name*, or had it last."""
    row = await db.fetchrow(
        "select instance, host, pid, process, heartbeat_at from penstock.workers where worker_id = $1", name
    )
    return None if row is None else Owner(**row)


async def beat(db: Db, who: Identity, *, running: int, rss_bytes: int | None) -> bool:
    """Say that the worker lives; False when the name has been taken over."""
    tag: str = await db.execute(
        "update penstock.workers set heartbeat_at = penstock.now(), running = $3, rss_bytes = $4 "
        "where worker_id = $1 and instance = $2",
        who.worker_id,
        who.instance,
        running,
        rss_bytes,
    )
    return tag == "UPDATE 1"


async def retire(db: Db, who: Identity) -> None:
    """The worker has stopped; its name is free at once."""
    await db.execute(
        "update penstock.workers set stopped_at = penstock.now(), running = 0 where worker_id = $1 and instance = $2",
        who.worker_id,
        who.instance,
    )


async def free_name(db: Db, base: str) -> str:
    """The first of `base-1`, `base-2`, … that no live worker has (names stay few, C-54)."""
    return (await free_names(db, base, 1))[0]


async def free_names(db: Db, base: str, count: int) -> list[str]:
    """The first *count* of these names."""
    rows = await db.fetch(
        "select worker_id from penstock.workers "
        "where stopped_at is null and heartbeat_at > penstock.now() - $1::interval",
        ALIVE,
    )
    taken = {row["worker_id"] for row in rows}
    names = (f"{base}-{slot}" for slot in itertools.count(1))
    return list(itertools.islice((name for name in names if name not in taken), count))


async def listed(db: Db) -> list[asyncpg.Record]:
    """Every worker, the newest heartbeat first."""
    return await db.fetch(
        "select *, stopped_at is null and heartbeat_at > penstock.now() - $1::interval as alive "
        "from penstock.workers order by heartbeat_at desc",
        ALIVE,
    )
