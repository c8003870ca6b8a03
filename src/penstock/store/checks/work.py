"""The work: workers that are gone, claims nobody returns, jobs nobody takes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.store.doctor import Finding, Patient, error, note, warning
from penstock.store.statements import sql
from penstock.store.workers import ALIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.doctor import Check

REAPED_BY: Final = timedelta(minutes=1)  # a live worker wakes for the next lease that expires


async def stale_workers(patient: Patient) -> list[Finding]:
    """Workers that stopped speaking without saying goodbye."""
    rows = await patient.db.fetch(sql("doctor/stale_workers"), ALIVE)
    remedy = "if it is gone for good, its jobs run again when their leases are over; retention removes the row"
    return [
        warning(
            "stale_workers",
            f"worker {row['worker_id']} (process {row['pid']} on {row['host']}) has been silent for "
            f"{_span(row['silent'])}",
            remedy,
        )
        for row in rows
    ]


async def unreaped_leases(patient: Patient) -> list[Finding]:
    """Expired claims are returned by any live worker; when they are not, none is alive."""
    count = await patient.db.fetchval(sql("doctor/unreaped_leases"), REAPED_BY)
    if not count:
        return []
    what = f"{count} jobs have had an expired lease for more than a minute, and nobody returns them"
    return [error("unreaped_leases", what, "start a worker: `penstock worker`; any worker returns them")]


async def open_breakers(patient: Patient) -> list[Finding]:
    """A type whose jobs fail for a reason that no retry mends is not claimed."""
    rows = await patient.db.fetch(
        "select job_type, breaker_code, breaker_opened_at from penstock.types where breaker <> 'closed' order by 1"
    )
    return [
        error(
            "open_breakers",
            f"the breaker of type {row['job_type']} is open since {row['breaker_opened_at']:%Y-%m-%d %H:%M} UTC "
            f"({row['breaker_code']})",
            "mend the credentials, the quota or the configuration; one job is tried after each cool-down",
        )
        for row in rows
    ]


async def paused_types(patient: Patient) -> list[Finding]:
    """A pause is a person's decision; one with jobs behind it may be a forgotten one."""
    rows = await patient.db.fetch(sql("doctor/paused_types"))
    return [
        (warning if row["waiting"] else note)(
            "paused_types",
            f"type {row['job_type']} is paused by {row['who']} since {row['paused_at']:%Y-%m-%d %H:%M} UTC"
            + (", and jobs wait" if row["waiting"] else ""),
            f"`penstock types resume {row['job_type']}` when the reason is gone",
        )
        for row in rows
    ]


async def unserved_types(patient: Patient) -> list[Finding]:
    """Due jobs of a type that no live worker serves wait for ever."""
    rows = await patient.db.fetch(sql("doctor/unserved_types"), ALIVE)
    return [
        error(
            "unserved_types",
            f"due jobs of type {row['job_type']} wait, and no live worker serves it",
            f"start one: `penstock worker --types {row['job_type']}`",
        )
        for row in rows
    ]


def _span(age: timedelta) -> str:
    return str(timedelta(seconds=round(age.total_seconds())))


CHECKS: Sequence[Check] = (stale_workers, unreaped_leases, open_breakers, paused_types, unserved_types)
