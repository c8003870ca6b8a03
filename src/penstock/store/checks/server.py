"""The server: its version, its promises, its housekeeping, its log, its room."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.store.doctor import Finding, Patient, error, note, warning
from penstock.store.migrate import OLDEST_SERVER
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.doctor import Check

OLD_TRANSACTION: Final = timedelta(minutes=5)
FEW_CONNECTIONS: Final = 10  # a worker process takes about eight


async def server_version(patient: Patient) -> list[Finding]:
    """PostgreSQL 15 or newer."""
    major = patient.db.get_server_version().major
    if major >= OLDEST_SERVER:
        return []
    what = f"this server is PostgreSQL {major}; Penstock needs {OLDEST_SERVER} or newer"
    return [error("server_version", what, "upgrade the server, or point PENSTOCK_DSN at a newer one")]


async def writable(patient: Patient) -> list[Finding]:
    """A standby or a read-only session can run no job."""
    if await patient.db.fetchval("select pg_is_in_recovery()"):
        what = "this server is a standby and takes no writes"
        return [error("writable", what, "point PENSTOCK_DSN at the primary (target_session_attrs=read-write finds it)")]
    if await patient.setting("default_transaction_read_only") == "on":
        what = "transactions are read-only by default (default_transaction_read_only = on)"
        return [error("writable", what, "turn it off for this database and login: alter database … reset …")]
    return []


async def durability(patient: Patient) -> list[Finding]:
    """What is acknowledged must survive a crash."""
    found = []
    if await patient.setting("fsync") == "off":
        what = "fsync is off: a power cut can lose every job and break the whole cluster"
        found.append(error("durability", what, "set fsync = on in postgresql.conf and restart the server"))
    if await patient.setting("full_page_writes") == "off":
        what = "full_page_writes is off: a power cut can leave torn pages"
        found.append(warning("durability", what, "set full_page_writes = on and reload"))
    if await patient.setting("synchronous_commit") == "off":
        what = "synchronous_commit is off: jobs that were acknowledged can be lost when the server crashes"
        found.append(warning("durability", what, "set synchronous_commit = on, at least for Penstock's logins"))
    return found


async def isolation(patient: Patient) -> list[Finding]:
    """Claims are written for read committed."""
    level = await patient.setting("default_transaction_isolation")
    if level == "read committed":
        return []
    what = f"default_transaction_isolation is {level}: workers would fail with serialization errors and retry"
    return [warning("isolation", what, "reset it for Penstock's logins: alter role penstock_worker reset …")]


async def autovacuum(patient: Patient) -> list[Finding]:
    """Without vacuum the hot indexes fill with dead entries and claims slow down."""
    off = [name for name in ("autovacuum", "track_counts") if await patient.setting(name) == "off"]
    if not off:
        return []
    what = f"{' and '.join(off)} off: nobody removes dead rows, and claims get slower with every job"
    return [error("autovacuum", what, f"set {' = on, '.join(off)} = on in postgresql.conf and reload")]


async def logged_parameters(patient: Patient) -> list[Finding]:
    """Payloads travel as parameters; a server that logs those keeps a second copy that nobody prunes."""
    whole = await patient.setting("log_parameter_max_length") != "0"
    found = []
    if (level := await patient.setting("log_statement")) in ("all", "mod") and whole:
        what = f"log_statement is {level}: the payload of every enqueue is written to the server's log"
        found.append(warning("logged_parameters", what, "set log_statement = ddl, or log_parameter_max_length = 0"))
    for name in ("log_min_duration_statement", "log_min_duration_sample", "auto_explain.log_min_duration"):
        limit = "auto_explain.log_parameter_max_length" if name.startswith("auto") else "log_parameter_max_length"
        if await patient.setting(name) not in (None, "-1") and await patient.setting(limit) != "0":
            what = f"{name} is set: slow statements are logged with their parameters, payloads included"
            found.append(warning("logged_parameters", what, f"set {limit} = 0"))
    if await patient.setting("log_parameter_max_length_on_error") != "0":
        what = "log_parameter_max_length_on_error is not 0: a refused statement is logged with its payload"
        found.append(warning("logged_parameters", what, "set log_parameter_max_length_on_error = 0"))
    if await patient.setting("log_error_verbosity") != "terse":
        what = "log_error_verbosity is not terse: a refused row may be printed whole in the server's log"
        found.append(
            note("logged_parameters", what, "set log_error_verbosity = terse where payloads hold private data")
        )
    return found


async def connections(patient: Patient) -> list[Finding]:
    """Room for the next worker."""
    free = await patient.db.fetchval(sql("doctor/free_connections"))
    if free >= FEW_CONNECTIONS:
        return []
    what = f"{max(free, 0)} connections are left; a worker process takes about eight"
    return [warning("connections", what, "raise max_connections, lower PENSTOCK_POOL_MAX, or run fewer processes")]


async def long_transactions(patient: Patient) -> list[Finding]:
    """An open snapshot keeps dead rows, and locks keep migrations waiting."""
    rows = await patient.db.fetch(sql("doctor/long_transactions"), OLD_TRANSACTION)
    found = [
        warning(
            "long_transactions",
            f"process {row['pid']} ({row['who']} {row['application']}) has had a transaction open for "
            f"{_span(row['age'])} and keeps vacuum from removing dead rows",
            f"end it in its program, or: select pg_terminate_backend({row['pid']})",
        )
        for row in rows
    ]
    return found + await _blind(patient)


async def _blind(patient: Patient) -> list[Finding]:
    """Without pg_read_all_stats only one's own sessions can be seen."""
    if await patient.db.fetchval("select pg_has_role('pg_read_all_stats', 'usage')"):
        return []
    what = "this login cannot see the transactions of other logins"
    return [note("long_transactions", what, "to see them all: grant pg_read_all_stats to the login of the doctor")]


async def prepared_transactions(patient: Patient) -> list[Finding]:
    """A prepared transaction that nobody ends holds its locks and its snapshot for ever."""
    rows = await patient.db.fetch(sql("doctor/old_prepared"), OLD_TRANSACTION)
    return [
        warning(
            "prepared_transactions",
            f"the prepared transaction {row['gid']!r} has been open for {_span(row['age'])}",
            "let its coordinator end it, or end it by hand with `rollback prepared`",
        )
        for row in rows
    ]


async def replication_slots(patient: Patient) -> list[Finding]:
    """A slot whose reader is gone keeps dead rows and write-ahead log."""
    rows = await patient.db.fetch(sql("doctor/idle_slots"))
    remedy = "start its reader again, or: select pg_drop_replication_slot(name)"
    return [
        warning(
            "replication_slots", f"the replication slot {row['name']} has no reader and holds back cleaning", remedy
        )
        for row in rows
    ]


def _span(age: timedelta) -> str:
    return str(timedelta(seconds=round(age.total_seconds())))


CHECKS: Sequence[Check] = (
    server_version, writable, durability, isolation, autovacuum, logged_parameters, connections, long_transactions,
    prepared_transactions, replication_slots,
)  # fmt: skip
