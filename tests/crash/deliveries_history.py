"""What must be true of a campaign of deliveries, whoever was killed: told, not doubled, and written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from penstock.emulator import Emulator

POSSIBLE = """
    select d.token, d.channel, d.status, d.notified_at, d.provider_confirmed_at, d.delivery_id,
           count(a.*) filter (where a.action = 'send' and a.outcome not like 'not_performed%') as maybe,
           count(a.*) filter (where a.action = 'send') as sends
      from review.deliveries d left join review.delivery_attempts a using (delivery_id)
     group by d.delivery_id
"""


@dataclass
class Count:
    """One channel: what its receivers have got, and what may have been sent twice by our own records."""

    deliveries: int = 0
    raw: int = 0  # messages
    ids: int = 0  # messages that differ by their id
    possible: int = 0  # sends beyond the first that may have happened, by delivery_attempts

    @property
    def doubled(self) -> int:
        """Messages that came under an id that was there already."""
        return self.raw - self.ids


async def counts(owner: asyncpg.Connection[Any], emulator: Emulator) -> dict[str, Count]:
    """By channel."""
    found = {channel: Count() for channel in ("resend", "webhook", "smtp")}
    for row in await owner.fetch(POSSIBLE):
        one = found[row["channel"]]
        one.deliveries += 1
        one.possible += max(0, row["maybe"] - 1)
    for channel, one in found.items():
        got = emulator.deliveries.by_token(channel)
        one.raw, one.ids = sum(got.values()), len(got)
    return found


async def violations(
    owner: asyncpg.Connection[Any], emulator: Emulator, log: Path, expected: int, *, smtp_doubles: bool
) -> list[str]:
    """Everything that is not as promised."""
    rows = await owner.fetch(POSSIBLE)
    problems = [f"{len(rows)} deliveries where {expected} were asked for"] if len(rows) != expected else []
    for row in rows:
        problems += _of_delivery(row, emulator.deliveries.count(row["token"]), smtp_doubles=smtp_doubles)
    problems += _bytes(emulator)
    problems += await _of_jobs(owner)
    return problems + _of_log(log)


def _of_delivery(row: asyncpg.Record, got: int, *, smtp_doubles: bool) -> Iterable[str]:
    name = f"{row['channel']} {row['delivery_id']}"
    if row["status"] != "sent" or row["notified_at"] is None:
        yield f"{name} was not told: {row['status']}"
    if got == 0:
        yield f"{name} is marked and nobody got it"
    if got > row["maybe"]:
        yield f"{name} came {got} times, and only {row['maybe']} sends are written down"
    if got > 1 and row["channel"] == "resend":
        yield f"{name} came {got} times although its channel has a key"
    if got > 1 and row["channel"] == "smtp" and not smtp_doubles:
        yield f"{name} came {got} times although doubts are held"
    if row["channel"] == "resend" and row["provider_confirmed_at"] is None:
        yield f"{name} was not confirmed by its provider"


def _of_log(log: Path) -> list[str]:
    return ["an address stands in a log"] if log.exists() and "@example.org" in log.read_text() else []


def _bytes(emulator: Emulator) -> Iterable[str]:
    """A repeated message is the same one: id and bytes."""
    forms: dict[str, set[tuple[str, bytes]]] = {}
    for each in emulator.deliveries:
        forms.setdefault(each.token, set()).add((each.identity, each.body))
    return [f"{token} came in {len(seen)} forms" for token, seen in forms.items() if len(seen) > 1]


async def _of_jobs(owner: asyncpg.Connection[Any]) -> list[str]:
    """Each review has one job that completed; what was marked was sent, so no sweep has found a broken order."""
    rows = await owner.fetch(
        "select j.status, n.status as last from review.reviews r join penstock.jobs j using (job_id) "
        "join penstock.jobs n on n.job_id = coalesce(j.superseded_by_job_id, j.job_id)"
    )
    problems = [f"a job ended {row['last']}" for row in rows if row["last"] != "completed"]
    alerts = Counter(row["kind"] for row in await owner.fetch("select kind from penstock.alerts"))
    if alerts["ordering_violation"]:
        problems.append(f"{alerts['ordering_violation']} marks without a send")
    open_effects = await owner.fetchval(
        "select count(*) from penstock.effects where state in ('intended', 'uncertain')"
    )
    return problems + ([f"{open_effects} effects are still in doubt"] if open_effects else [])
