"""Run records and skip events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import asyncpg

    from penstock.store.claims import Db


async def save(db: Db, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write run records; a run that is known is brought up to date."""
    await db.execute("select penstock.save_runs($1::jsonb)", json.dumps(rows))


async def skip(db: Db, function: str, reason: str) -> None:
    """Record that a tick had nothing to do (Q-50)."""
    await db.execute(
        "insert into penstock.skips (function, at, reason) values ($1, penstock.now(), $2)", function, reason
    )


async def listed(db: Db, *, function: str | None = None, limit: int = 50) -> list[asyncpg.Record]:
    """The newest runs."""
    return await db.fetch(
        "select * from penstock.runs where $1::text is null or function = $1 order by started_at desc limit $2", function, limit
    )
