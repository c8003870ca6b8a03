"""The clock of the database, which tests wind. The row is the owner's to write: no role of the five may (C-22)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.store.claims import Db

NO_SHIFT = timedelta(0)


async def now(db: Db) -> datetime:
    """What `penstock.now()` says."""
    moment: datetime = await db.fetchval("select penstock.now()")
    return moment


async def shift(db: Db) -> timedelta:
    """How far the clock is wound; zero but in tests."""
    found: timedelta | None = await db.fetchval("select shift from penstock.clock")
    return found or NO_SHIFT


async def wind(db: Db, span: timedelta) -> None:
    """Wind the clock on by *span*, or back by a negative one."""
    await db.execute(
        "insert into penstock.clock as clock (shift) values ($1) "
        "on conflict (only_row) do update set shift = clock.shift + excluded.shift",
        span,
    )


async def reset(db: Db) -> None:
    """Back to the server's own time."""
    await db.execute("delete from penstock.clock")
