"""Penstock's own job table, as the hand-written loop and the preloaded scenarios use it."""

from __future__ import annotations

import asyncio
from typing import Final

import asyncpg

from bench.contestant import TYPE

# A worker may leave a job of another status behind only by a fault, which the counts would show. Ordered as the indexes
# are: for a bare EXISTS the planner walks over a million future jobs, and the walk would count as drain.
PENDING: Final = f"""
select coalesce(
    (select true from penstock.jobs where job_type = '{TYPE}' and status = 'queued' and ready
      order by priority, created_at, job_id limit 1),
    (select true from penstock.jobs where status = 'processing' and lease_expires_at is not null
      order by lease_expires_at limit 1),
    false)
"""

_PRELOAD: Final = """
insert into penstock.jobs (job_id, created_at, updated_at, run_at, finished_at, max_attempts, ready,
                           status, job_type, stage, priority, payload)
select penstock.uuid7(), at.created, at.created, at.run, at.finished, 5, $3, $4, $5, 'run', $6, '{"n": 0}'
  from generate_series(1, $1::integer) as i
 cross join lateral (select now() - interval '1 day' + i * interval '1 millisecond' as created,
                            now() + make_interval(days => $2) as run,
                            case when $4::text = 'completed' then now() end as finished) as at
"""


async def make(dsn: str) -> None:
    """The schema as `penstock migrate up` makes it."""
    from penstock.store import migrate

    await asyncio.to_thread(migrate.upgrade, dsn)


async def fill(
    dsn: str, jobs: int, *, status: str, job_type: str = TYPE, future: bool = False, priority: int = 0
) -> None:
    """Insert finished, future or foreign jobs past the triggers, which guard moves and not bulk history."""
    connection = await asyncpg.connect(dsn, server_settings={"session_replication_role": "replica"})
    await connection.execute(_PRELOAD, jobs, 30 if future else 0, not future, status, job_type, priority)
    await connection.close()
