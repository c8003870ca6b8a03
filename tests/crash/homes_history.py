"""What must be true of homes, requests and outputs after any number of kills."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tests.crash import history

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    from penstock.apps.rewrite import Rewrites

MARKS: Final = ("canary-", "echo-")  # in every message, and in every output
ENDS: Final = {"completed": "completed", "failed": "failed", "canceled": "canceled"}  # of a job → of its request


async def violations(
    db: asyncpg.Connection[Any], orchestrator: Rewrites, sent: Mapping[UUID, tuple[UUID, str]], logs: list[Path]
) -> list[str]:
    """Everything that is wrong, in sentences; *sent* are request → (home, canary)."""
    return [
        *await _ends(db, len(sent)),
        *await _outputs(db),
        *await _contents(orchestrator, sent),
        *await _leaks(db),
        *_logged(logs),
    ]


async def _ends(db: asyncpg.Connection[Any], count: int) -> list[str]:
    """Every request has ended as its job has, none is lost, and every trail is legal."""
    rows = await db.fetch(
        "select r.rewrite_request_id, r.status, j.status as job from rewrite.rewrite_requests r "
        "left join rewrite.rewrite_jobs d using (rewrite_request_id) left join penstock.jobs j using (job_id)"
    )
    problems = [] if len(rows) == count else [f"{count} messages were taken, {len(rows)} requests are there"]
    problems += [
        f"request {row['rewrite_request_id']} is {row['status']}, its job is {row['job']}"
        for row in rows
        if ENDS.get(row["job"]) != row["status"]
    ]
    trails = await history._trails(db)  # the same rule for every campaign
    return problems + trails


async def _outputs(db: asyncpg.Connection[Any]) -> list[str]:
    """One output for each completed unit, in its own home, by its own job, written once; none for any other."""
    rows = await db.fetch(
        """select r.rewrite_request_id, r.status, count(o.job_id) as outputs,
                  count(*) filter (where o.home_id <> r.home_id or o.recipient_user_id <> r.recipient_user_id
                                      or o.job_id <> d.job_id or o.output_locale <> r.target_locale) as foreign
             from rewrite.rewrite_requests r
             join rewrite.rewrite_jobs d using (rewrite_request_id)
             left join rewrite.rewrite_outputs o using (rewrite_request_id)
            group by r.rewrite_request_id"""
    )
    problems = [
        f"request {row['rewrite_request_id']} is {row['status']}: {row['outputs']} outputs, {row['foreign']} foreign"
        for row in rows
        if row["foreign"] or row["outputs"] != (row["status"] == "completed")
    ]
    twice = await db.fetch(
        "select job_id, count(*) from penstock.job_events where to_status = 'completed' group by 1 having count(*) > 1"
    )
    return problems + [f"job {row['job_id']} was completed {row['count']} times" for row in twice]


async def _contents(orchestrator: Rewrites, sent: Mapping[UUID, tuple[UUID, str]]) -> list[str]:
    """Each output was made of its own message; asked for from another home it is not there."""
    problems, homes = [], list({home_id for home_id, _ in sent.values()})
    for number, (request_id, (home_id, canary)) in enumerate(sent.items()):
        output = await orchestrator.read_output(home_id, request_id)
        if output is None:
            continue
        if output.rewritten_text.count("echo-") != 1 or f"echo-{canary}" not in output.rewritten_text:
            problems.append(f"the output of request {request_id} was made of another message")
        stranger = homes[number % len(homes)]
        if stranger != home_id and await orchestrator.read_output(stranger, request_id) is not None:
            problems.append(f"request {request_id} can be read from another home")
    return problems


async def _leaks(db: asyncpg.Connection[Any]) -> list[str]:
    """No text in any table, in the open or as bytes, nor in what the server shows of its sessions."""
    names = await db.fetch(
        "select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on "
        "n.oid = c.relnamespace where c.relkind in ('r', 'p') and n.nspname in ('penstock', 'rewrite', 'public')"
    )
    marks = [f"%{form}%" for mark in MARKS for form in (mark, mark.encode().hex())]
    problems = []
    for table in [*(row["name"] for row in names), "pg_stat_activity"]:
        count = await db.fetchval(f"select count(*) from {table} as t where t::text like any($1::text[])", marks)
        problems += [f"{count} rows of {table} hold text"] if count else []
    return problems


def _logged(logs: list[Path]) -> list[str]:
    """No text in any log, ours or the server's."""
    found = Counter(
        path.name
        for path in logs
        for line in path.read_text(errors="replace").splitlines()
        if any(m in line for m in MARKS)
    )
    return [f"{count} lines of {name} hold text" for name, count in found.items()]
