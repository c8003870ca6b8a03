"""Batches on their way to a provider: intents, marks, and what a recovery does about a doubt (C-36)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.store.claims import Db


async def count_open(db: Db, job_type: str) -> int:
    """How many batches of *job_type* wait for an answer, or for somebody to find out what became of them."""
    count: int = await db.fetchval(
        "select count(*) from penstock.batches where job_type = $1 and state in ('building', 'uncertain', 'submitted')",
        job_type,
    )
    return count
