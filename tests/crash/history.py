"""The history checker: what must be true of a database after any number of kills.

Every rule answers with the rows that break it; an empty answer is a verdict.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.contract.keys import token
from penstock.contract.statuses import MOVES

if TYPE_CHECKING:
    import asyncpg

    from tests.crash.handlers import World

LEGAL = {(str(begin), str(end)) for (begin, _), end in MOVES.items()}


async def violations(db: asyncpg.Connection[Any], world: World, enqueued: int) -> list[str]:
    """Everything that is wrong, in sentences."""
    return [
        *await of_jobs(db, enqueued),
        *await _doubled_effects(db, world),
        *await _writes(db),
        *await _stages(db),
    ]


async def of_jobs(db: asyncpg.Connection[Any], enqueued: int) -> list[str]:
    """What is wrong with jobs of any type: their number, their ends, their dead letters, their audit."""
    return [*await _lost(db, enqueued), *await _letters(db), *await _trails(db)]


async def _lost(db: asyncpg.Connection[Any], enqueued: int) -> list[str]:
    """No job vanishes, and each ends in exactly one terminal status."""
    rows = await db.fetch("select status, count(*) from penstock.jobs group by status")
    counts = {row["status"]: row["count"] for row in rows}
    problems = []
    if sum(counts.values()) != enqueued:
        problems.append(f"{enqueued} jobs were enqueued, {sum(counts.values())} are there")
    open_ones = {status: n for status, n in counts.items() if status not in ("completed", "failed")}
    if open_ones:
        problems.append(f"jobs that have not ended: {open_ones}")
    return problems


async def _doubled_effects(db: asyncpg.Connection[Any], world: World) -> list[str]:
    """Each effect happened at most once, and exactly once for a completed job."""
    effects = Counter(world.effects())
    problems = [f"effect {key[:12]} happened {n} times" for key, n in effects.items() if n > 1]
    rows = await db.fetch("select job_id, job_type, status from penstock.jobs where job_type in ('mail', 'staged')")
    problems += [
        f"job {row['job_id']} is completed without its effect"
        for row in rows
        if row["status"] == "completed" and not effects[token(row["job_type"], "mail", f"job:{row['job_id']}")]
    ]
    return problems


async def _writes(db: asyncpg.Connection[Any]) -> list[str]:
    """Each completed job of type write has exactly one row, written under the claim that completed it."""
    rows = await db.fetch(
        """select j.job_id, j.status, count(w.job_id) as writes, bool_and(w.claim_seq = j.claim_seq) as same
             from penstock.jobs j left join public.writes w using (job_id)
            where j.job_type = 'write' group by j.job_id, j.status"""
    )
    return [
        f"job {row['job_id']} ({row['status']}) has {row['writes']} writes"
        for row in rows
        if (row["status"] == "completed") != (row["writes"] == 1) or (row["writes"] and not row["same"])
    ]


async def _letters(db: asyncpg.Connection[Any]) -> list[str]:
    """Exactly one dead letter per failed job, and none for any other."""
    rows = await db.fetch(
        """select j.job_id from penstock.jobs j full join penstock.dead_letters d on d.job_id = j.job_id
            where (j.status = 'failed') is distinct from (d.job_id is not null)"""
    )
    return [f"job {row['job_id']}: failed and dead letter do not go together" for row in rows]


async def _trails(db: asyncpg.Connection[Any]) -> list[str]:
    """The audit of each job is one unbroken chain of legal moves, and fences only rise."""
    rows = await db.fetch("select * from penstock.job_events order by job_id, event_id")
    problems: list[str] = []
    last: dict[Any, Any] = {}
    for row in rows:
        before = last.get(row["job_id"])
        if before is None:
            if (row["from_status"], row["to_status"]) != (None, "queued"):
                problems.append(f"job {row['job_id']} begins as {row['to_status']}")
        elif row["from_status"] != before["to_status"]:
            problems.append(f"job {row['job_id']}: gap {before['to_status']} … {row['from_status']}")
        elif row["from_status"] != row["to_status"] and (row["from_status"], row["to_status"]) not in LEGAL:
            problems.append(f"job {row['job_id']}: {row['from_status']} → {row['to_status']}")
        elif row["claim_seq"] < before["claim_seq"]:
            problems.append(f"job {row['job_id']}: its fence fell")
        last[row["job_id"]] = row
    return problems


async def _stages(db: asyncpg.Connection[Any]) -> list[str]:
    """A completed staged job kept the result of its first stage."""
    rows = await db.fetch(
        """select j.job_id from penstock.jobs j
            where j.job_type = 'staged' and j.status = 'completed'
              and not exists (select from penstock.stages s
                               where s.job_id = j.job_id and s.stage = 'fetch' and s.finished_at is not null)"""
    )
    return [f"job {row['job_id']} is completed without the result of fetch" for row in rows]
