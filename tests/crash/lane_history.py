"""What must be true of a lane after any number of kills, at the provider's side and at ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from tests.crash import history

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import asyncpg

PROVIDERS: Final = ("openai", "gemini", "anthropic")
Entry = dict[str, Any]


async def live_now(db: asyncpg.Connection[Any], state: Mapping[str, Any]) -> list[str]:
    """At no moment two live batches of one submission, nor two live batches for one job.

    The second half is the rule of C-66 for Anthropic: a submission in doubt
    waits, and its jobs go nowhere else while its batch may be running.
    """
    live = [(provider, token) for provider, token, entry in entries(state) if entry["live"]]
    problems = [
        f"submission {token} has {entry['live']} live batches at {provider}"
        for provider, token, entry in entries(state)
        if entry["live"] > 1
    ]
    rows = await db.fetch(
        "select job_id, count(*) from penstock.batch_items where batch_id = any($1::uuid[]) "
        "group by job_id having count(*) > 1",
        [UUID(token) for _, token in live],
    )
    return problems + [f"job {row['job_id']} is in {row['count']} live batches" for row in rows]


async def violations(db: asyncpg.Connection[Any], state: Mapping[str, Any], enqueued: int) -> list[str]:
    """Everything that is wrong at the end, in sentences."""
    return [
        *await history.of_jobs(db, enqueued),
        *await _outputs(db),
        *await _loose_ends(db),
        *await _at_the_providers(db, state),
    ]


def entries(state: Mapping[str, Any]) -> Iterator[tuple[str, str, Entry]]:
    """Provider, submission and what the provider has of it."""
    for provider in PROVIDERS:
        for token, entry in state[provider]["tokens"].items():
            yield provider, token, entry


async def _outputs(db: asyncpg.Connection[Any]) -> list[str]:
    """One output per completed job, its own and of the claim that completed it; none for any other."""
    rows = await db.fetch(
        """select j.job_id, j.status, (j.payload ->> 'fatal')::boolean as fatal, count(o.job_id) as outputs,
                  count(*) filter (where o.canary is distinct from j.payload ->> 'canary') as foreign,
                  bool_and(o.claim_seq = j.claim_seq) as same
             from penstock.jobs j left join public.lane_outputs o using (job_id)
            group by j.job_id"""
    )
    problems = []
    for row in rows:
        wanted = ("failed", 0) if row["fatal"] else ("completed", 1)
        if (row["status"], row["outputs"]) != wanted:
            problems.append(f"job {row['job_id']} is {row['status']} with {row['outputs']} outputs, not {wanted}")
        elif row["outputs"] and (row["foreign"] or not row["same"]):
            problems.append(f"job {row['job_id']} has an output that is not its own, or of another claim")
    return problems


async def _loose_ends(db: asyncpg.Connection[Any]) -> list[str]:
    """No batch, item or intent is left open."""
    found = {
        "batches": "select count(*) from penstock.batches where state not in ('collected', 'abandoned')",
        "items": "select count(*) from penstock.batch_items where state = 'open'",
        "intents": "select count(*) from penstock.effects where state in ('intended', 'uncertain')",
    }
    counts = {what: await db.fetchval(query) for what, query in found.items()}
    return [f"{count} {what} are still open" for what, count in counts.items() if count]


async def _at_the_providers(db: asyncpg.Connection[Any], state: Mapping[str, Any]) -> list[str]:
    """Each submission has at most one batch there that was never cancelled: the one that we know, and waited for."""
    rows = await db.fetch("select batch_id, state, provider_batch_id from penstock.batches")
    known = {row["batch_id"].hex: row for row in rows}
    problems = []
    for provider, token, entry in entries(state):
        row = known.get(token)
        if row is None:
            problems.append(f"{provider} has a batch of {token}, which nobody intended")
        elif entry["kept"] > 1 or entry["live"]:
            problems.append(f"submission {token}: {entry['kept']} kept, {entry['live']} live at {provider}")
        elif row["state"] == "abandoned" and entry["kept"]:
            problems.append(f"submission {token} was given up, and {provider} has executed it all the same")
        elif row["provider_batch_id"] not in entry["ids"]:
            problems.append(f"submission {token} ({row['state']}) does not know its batch at {provider}")
    return problems
