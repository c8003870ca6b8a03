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


# Of tables and their indexes; catalogs are read when the session, or the server, has forgotten what stands in them
PAGES = """
select coalesce(sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0)
                    + coalesce(toast_blks_read + toast_blks_hit + tidx_blks_read + tidx_blks_hit, 0)), 0)::integer
  from pg_statio_user_tables
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

    The cheaper of two runs is taken: one that has to be planned looks at every index.
    """
    cursor = psycopg.ClientCursor(connection)
    cursor.execute("deallocate all")
    cursor.execute(f"set plan_cache_mode = force_{mode}_plan")
    cursor.execute(b"prepare s as " + sql.encode())
    connection.commit()  # a setting would be undone with the first run
    statement = f"explain (analyze, timing off, format json) execute s({', '.join(['%s'] * len(arguments))})"
    return min((_run(cursor, statement, arguments) for _ in range(2)), key=lambda plan: plan.buffers)


def _run(cursor: psycopg.ClientCursor[Any], statement: str, arguments: Sequence[Any]) -> Plan:
    pages = _pages(cursor)
    before = dict(cursor.execute(SCANS).fetchall())
    cursor.execute(statement, arguments)
    (top,) = cursor.fetchall()[0][0]
    after = dict(cursor.execute(SCANS).fetchall())
    return Plan(
        nodes=tuple(_walk(top["Plan"])),
        buffers=_pages(cursor) - pages,
        sequential=after["table"] - before["table"],
        indexes=frozenset(name for name, scans in after.items() if name != "table" and scans > before[name]),
        rows=top["Plan"]["Actual Rows"],
    )


def _pages(cursor: psycopg.ClientCursor[Any]) -> int:
    """Undo what was done, and say how many pages the session's database has touched so far."""
    cursor.execute("select pg_stat_force_next_flush()")
    cursor.connection.rollback()
    (touched,) = cursor.execute(PAGES).fetchone() or (0,)
    cursor.connection.rollback()
    return int(touched)


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)
