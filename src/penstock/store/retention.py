"""Rows past their time: finding them, and having them removed in sets (C-67).

Finding is a plain query; removing is a function of the database that looks at
every row again, because no role of Penstock may delete anything by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import asyncpg

from penstock.contract.errors import PenstockError
from penstock.store.statements import sql
from penstock.store.transactions import transaction

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from penstock.store.claims import Db

SET: Final = 1000  # rows per transaction: locks and replication lag stay short
SCAN: Final = 20_000  # ids found by one look at a table


async def spans(db: Db) -> dict[str, timedelta]:
    """How long each kind of record is kept at least."""
    return {row["what"]: row["keep"] for row in await listed(db)}


async def listed(db: Db) -> list[asyncpg.Record]:
    """The same, with who set it and when."""
    return await db.fetch("select what, keep, set_at, set_by, db_user from penstock.retention order by what")


async def set_span(db: Db, what: str, keep: timedelta, *, who: str) -> None:
    """Keep records of *what* for *keep*, a day at least; only operators may."""
    try:
        await db.execute("select penstock.set_retention($1, $2, $3)", what, keep, who)
    except asyncpg.InvalidParameterValueError as error:
        raise PenstockError(f"{error}; `penstock retention list` shows what there is") from None


async def finished_jobs(db: Db) -> list[UUID]:
    """Up to SCAN jobs that may go."""
    cutoff = await db.fetchval("select penstock.now() - min(keep_finished) from penstock.types")
    return [] if cutoff is None else await _scan(db, "retention/jobs", cutoff)


async def prune_jobs(db: Db, job_ids: Sequence[UUID]) -> int:
    """Remove one set of jobs with their stages; their keys are kept, by a commit of its own before."""
    await db.execute("select penstock.keep_keys($1::uuid[])", job_ids)
    return int(await db.fetchval("select penstock.prune_jobs($1::uuid[])", job_ids))


async def forgotten_effects(db: Db) -> list[str]:
    """Up to SCAN effects that may go."""
    cutoff = await db.fetchval("select penstock.now() - min(keep_keys) from penstock.types")
    return [] if cutoff is None else await _scan(db, "retention/effects", cutoff)


async def prune_effects(db: Db, effect_keys: Sequence[str]) -> int:
    """Remove one set of effects with their attempts."""
    return int(await db.fetchval("select penstock.prune_effects($1::text[])", effect_keys))


async def old_audit(db: Db, keep: timedelta) -> list[int]:
    """Up to SCAN audit rows that may go."""
    return await _scan(db, "retention/audit", keep)


async def prune_audit(db: Db, event_ids: Sequence[int], keep: timedelta) -> int:
    """Remove one set of audit rows."""
    return int(await db.fetchval("select penstock.prune_audit($1::bigint[], $2)", event_ids, keep))


async def prune_old(db: Db, what: str, keep: timedelta | None) -> int:
    """Remove one set of rows called *what*."""
    return int(await db.fetchval("select penstock.prune_old($1, $2, $3)", what, keep, SET))


async def _scan(db: Db, name: str, bound: Any) -> list[Any]:
    """One look; planned for this very bound, since a generic plan would not know how little lies behind it."""
    async with transaction(db) as tx:
        await tx.execute("set local plan_cache_mode = force_custom_plan")
        return [row[0] for row in await tx.fetch(sql(name), bound, SCAN)]
