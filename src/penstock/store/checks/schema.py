"""The schema: its version, and whether somebody has switched off what it relies on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.store import clock, migrate
from penstock.store.doctor import Finding, Patient, error, warning
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.doctor import Check

NEEDED: Final = (
    "idx_outbox_runnable",
    "idx_outbox_expired_lease",
    "jobs_not_due",
    "jobs_suspect",
    "jobs_idempotency_key",
)


async def schema_version(patient: Patient) -> list[Finding]:
    """Every line is of the version that this code needs."""
    found = []
    for line in patient.lines:
        state = await migrate.state_of(patient.db, line)
        if state.up_to_date:
            continue
        if state.current is None:
            what = f"the schema of the {line.name} is missing"
        else:
            what = f"the schema of the {line.name} is of version {state.current}; this Penstock needs {state.head}"
        remedy = "install the newer Penstock" if state.newer else "run `penstock migrate up` as the owner of the schema"
        found.append(error("schema_version", what, remedy))
    return found


async def wound_clock(patient: Patient) -> list[Finding]:
    """Only tests wind the clock of the database."""
    shift = await clock.shift(patient.db)
    if not shift:
        return []
    what = f"the clock of this database is wound by {shift}; leases and due times are off by that much"
    return [error("wound_clock", what, "as the owner: delete from penstock.clock")]


async def table_autovacuum(patient: Patient) -> list[Finding]:
    """Vacuum of our own tables."""
    rows = await patient.db.fetch(sql("doctor/unvacuumed_tables"))
    return [
        error(
            "table_autovacuum",
            f"autovacuum is off on penstock.{row['name']}",
            f"alter table penstock.{row['name']} reset (autovacuum_enabled)",
        )
        for row in rows
    ]


async def disabled_triggers(patient: Patient) -> list[Finding]:
    """Triggers keep illegal moves out and the audit complete."""
    rows = await patient.db.fetch(sql("doctor/disabled_triggers"))
    found = [
        error(
            "disabled_triggers",
            f"the trigger {row['name']} on penstock.{row['relation']} is switched off",
            f"alter table penstock.{row['relation']} enable trigger {row['name']}",
        )
        for row in rows
    ]
    if await patient.setting("session_replication_role") == "replica":
        what = "session_replication_role is replica: no trigger fires for this login"
        found.append(error("disabled_triggers", what, "reset it: alter role … reset session_replication_role"))
    return found


async def broken_indexes(patient: Patient) -> list[Finding]:
    """An index that a failed REINDEX CONCURRENTLY left behind, or one that somebody dropped."""
    rows = await patient.db.fetch(sql("doctor/invalid_indexes"))
    found = [
        error("broken_indexes", f"the index {row['name']} is invalid and not used", f"reindex index {row['name']}")
        for row in rows
    ]
    missing = await patient.db.fetch(
        "select name from unnest($1::text[]) as name where to_regclass('penstock.' || name) is null", NEEDED
    )
    remedy = "`penstock migrate up --sql` prints its definition; create it again concurrently"
    found += [error("broken_indexes", f"the index penstock.{row['name']} is missing", remedy) for row in missing]
    return found


async def never_analysed(patient: Patient) -> list[Finding]:
    """A large job table without statistics gets poor plans."""
    row = await patient.db.fetchrow(
        "select n_live_tup, coalesce(last_analyze, last_autoanalyze) as at from pg_stat_user_tables "
        "where relid = 'penstock.jobs'::regclass"
    )
    if row is None or row["at"] is not None or row["n_live_tup"] < 100_000:  # noqa: PLR2004 - small tables need none
        return []
    what = f"penstock.jobs holds about {row['n_live_tup']:,} rows and was never analysed"
    return [warning("never_analysed", what, "run: analyze penstock.jobs")]


ALWAYS: Sequence[Check] = (schema_version,)
CHECKS: Sequence[Check] = (wound_clock, table_autovacuum, disabled_triggers, broken_indexes, never_analysed)
