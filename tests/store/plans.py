"""What a statement did: the nodes of its plan, the pages it touched, the scans of penstock.jobs it made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

SCANS = """
select 'table' as name, pg_stat_get_xact_numscans('penstock.jobs'::regclass)
union all
select c.relname, pg_stat_get_xact_numscans(i.indexrelid)
  from pg_index i join pg_class c on c.oid = i.indexrelid where i.indrelid = 'penstock.jobs'::regclass
"""


@dataclass(frozen=True)
class Plan:
    """One run of a statement, undone afterwards."""

    nodes: tuple[dict[str, Any], ...]
    buffers: int
    sequential: int  # whole scans of penstock.jobs, inside functions too
    indexes: frozenset[str]  # indexes of penstock.jobs that were read, inside functions too
    rows: int


def explain(connection: psycopg.Connection[Any], sql: str, arguments: Sequence[Any], mode: str) -> Plan:
    """Run *sql* as a prepared statement in plan mode *mode* and say what it did; nothing stays.

    The cheapest of three runs is taken. The first pays for caches of the session, and a later one pays
    again when changes in other databases have made the server throw them away.
    """
    cursor = psycopg.ClientCursor(connection)
    cursor.execute("deallocate all")
    cursor.execute(f"set plan_cache_mode = force_{mode}_plan")
    cursor.execute(b"prepare s as " + sql.encode())
    statement = f"explain (analyze, buffers, timing off, format json) execute s({', '.join(['%s'] * len(arguments))})"
    return min((_run(cursor, statement, arguments) for _ in range(3)), key=lambda plan: plan.buffers)


def _run(cursor: psycopg.ClientCursor[Any], statement: str, arguments: Sequence[Any]) -> Plan:
    before = dict(cursor.execute(SCANS).fetchall())
    cursor.execute(statement, arguments)
    (top,) = cursor.fetchall()[0][0]
    after = dict(cursor.execute(SCANS).fetchall())
    cursor.connection.rollback()
    return Plan(
        nodes=tuple(_walk(top["Plan"])),
        buffers=top["Plan"]["Shared Hit Blocks"] + top["Plan"]["Shared Read Blocks"],
        sequential=after["table"] - before["table"],
        indexes=frozenset(name for name, scans in after.items() if name != "table" and scans > before[name]),
        rows=top["Plan"]["Actual Rows"],
    )


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)
