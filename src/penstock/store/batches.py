"""Provider batches as operators see them: how they stand, what became of their items, and how to call one off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.contract.errors import NotFound
from penstock.store.statements import sql

if TYPE_CHECKING:
    from uuid import UUID

    import asyncpg

    from penstock.store.claims import Db


async def listed(
    db: Db, *, job_type: str | None = None, state: str | None = None, limit: int = 50
) -> list[asyncpg.Record]:
    """Batches, the newest first; state `open` is everything that is not over."""
    return await db.fetch(sql("batch_items/list"), job_type, state, limit)


async def get(db: Db, batch_id: UUID) -> asyncpg.Record:
    """One batch with the counts of its items."""
    row: asyncpg.Record | None = await db.fetchrow(
        "select o.*, penstock.now() - o.created_at as age, o.deadline_at - penstock.now() as time_left "
        "from penstock.batch_overview o where o.batch_id = $1",
        batch_id,
    )
    if row is None:
        raise NotFound("batch", batch_id)
    return row


async def items(db: Db, batch_id: UUID, limit: int) -> list[asyncpg.Record]:
    """What became of each item of a batch."""
    return await db.fetch(sql("batch_items/show_items"), batch_id, limit)


async def ask_cancel(db: Db, batch_id: UUID) -> str:
    """Ask the collector to cancel a batch at its provider; returns the state it is in.

    Only one that is at its provider can be canceled; the others stay as they are.
    """
    state: str | None = await db.fetchval("select state from penstock.batches where batch_id = $1", batch_id)
    if state is None:
        raise NotFound("batch", batch_id)
    asked = await db.fetchval(
        "update penstock.batches set cancel_asked_at = coalesce(cancel_asked_at, penstock.now()), "
        "next_poll_at = penstock.now() where batch_id = $1 and state = 'submitted' returning state",
        batch_id,
    )
    return state if asked is None else str(asked)
