"""Databases that one test after another uses, each handed out as fresh as a clone.

Cloning and dropping a database takes 28 ms of processor time, taking the rows
out of one 3 ms. Whether there is more to undo than rows, the server's own
counters tell: they count every row that is put into, changed in or taken from
a table, those of the catalogs included. A function that was replaced, as the
clock is when a test winds it, gets its old body back. A database whose
catalogs, settings or rights changed otherwise is dropped, and so is one that
many rows went through: nobody vacuums here.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

import psycopg
from psycopg import sql

from penstock.embedded import EmbeddedServer
from tests.support import clusters

MOST_ROWS: Final = 3_000  # that went through a database before it is dropped
PATIENCE: Final = 10.0  # for sessions that were told to end
FIRST_OF_OURS: Final = 16_384  # smaller object ids are the catalogs'
OF_FUNCTIONS: Final = frozenset({1255, 2608})  # the catalogs that a replaced function moves: pg_proc and pg_depend

# What the keeper of a database does leaves no mark in the counters and wakes no trigger
KEEPER: Final = "-c track_counts=off -c session_replication_role=replica -c stats_fetch_consistency=none"

TABLES: Final = """
select c.oid, n.nspname, c.relname,
       array(select a.attname from pg_attribute a
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
             order by a.attnum)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and not c.relisshared
"""
COUNTED: Final = """
select counted.oid, counted.moves
from (select oid, pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid)
             + pg_stat_get_tuples_deleted(oid) as moves
      from unnest(%s::oid[]) as oid) as counted
where counted.moves > 0
"""
VERSIONS: Final = f"select p.oid, p.xmin::text from pg_proc p where p.oid >= {FIRST_OF_OURS}"  # who wrote it last
LASTING: Final = "select p.oid, (p.pronamespace, p.proname, p.proowner, p.proacl)::text from pg_proc p"
DEFINITIONS: Final = f"""
select p.oid, pg_get_functiondef(p.oid) from pg_proc p where p.oid >= {FIRST_OF_OURS} and p.prokind in ('f', 'p')
"""
SEQUENCES: Final = "select schemaname, sequencename, start_value, last_value from pg_sequences"
ABOUT: Final = """
select d.datdba, d.datacl, d.datconnlimit, d.datallowconn,
       (select count(*) from pg_db_role_setting s where s.setdatabase = d.oid),
       (select count(*) from pg_prepared_xacts x where x.database = d.datname)
from pg_database d where d.datname = %s
"""
OTHERS: Final = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> %s"


@dataclass(frozen=True)
class Layout:
    """What a database has when it leaves its template."""

    tables: Mapping[int, sql.Composable]  # those that rows go in and out of
    watched: list[int]  # these and the catalogs
    seeds: Mapping[int, tuple[sql.Composed, bytes]]  # how to copy in what a table begins with
    sequences: frozenset[tuple[Any, ...]]
    definitions: Mapping[int, str]  # of functions and procedures
    lasting: Mapping[int, str]  # what replacing a function leaves alone


@dataclass
class Kept:
    """A database of the stock, the connection that looks after it, and what was counted so far."""

    database: clusters.Database
    template: str
    keeper: psycopg.Connection[Any]
    about: tuple[Any, ...]
    functions: dict[int, str]  # the version of each
    counted: dict[int, int] = field(default_factory=dict)


class Stock:
    """The databases of one test process."""

    def __init__(self, server: EmbeddedServer, admin: psycopg.Connection[Any]) -> None:
        self._server = server
        self._admin = admin
        self._layouts: dict[str, Layout] = {}
        self._fresh: defaultdict[str, list[Kept]] = defaultdict(list)
        self._used: dict[str, Kept] = {}

    def __enter__(self) -> Self:
        """Begin without any."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of all; the server is about to go as well."""
        for kept in [*self._used.values(), *(one for fresh in self._fresh.values() for one in fresh)]:
            kept.keeper.close()

    def take(self, template: str) -> clusters.Database:
        """Hand out a database like a clone of *template*."""
        kept = self._fresh[template].pop() if self._fresh[template] else self._clone(template)
        self._used[kept.database.name] = kept
        return kept.database

    def give_back(self, database: clusters.Database) -> None:
        """Make *database* fresh for the next test, or drop it."""
        kept = self._used.pop(database.name)
        with suppress(psycopg.OperationalError):  # a test may have ended the keeper as well
            if self._emptied(kept):
                self._fresh[kept.template].append(kept)
                return
        kept.keeper.close()
        clusters.drop(database, self._admin)

    def _clone(self, template: str) -> Kept:
        database = clusters.clone(self._server, self._admin, template)
        keeper = psycopg.connect(
            database.superuser_dsn, autocommit=True, options=KEEPER, application_name="tests keeper"
        )
        if template not in self._layouts:
            self._layouts[template] = _survey(keeper)
        return Kept(database, template, keeper, self._about(database), _functions(keeper))

    def _about(self, database: clusters.Database) -> tuple[Any, ...]:
        found = self._admin.execute(ABOUT, [database.name], prepare=True).fetchone()
        return found or ()

    def _emptied(self, kept: Kept) -> bool:
        """Take out what the test left; False is a database that has to be dropped."""
        self._end_others(kept)
        if self._about(kept.database) != kept.about:
            return False
        layout = self._layouts[kept.template]
        counted = dict(kept.keeper.execute(COUNTED, [layout.watched], prepare=True).fetchall())
        moved = {table for table, moves in counted.items() if moves != kept.counted.get(table)}
        odd = moved - layout.tables.keys()
        if odd - OF_FUNCTIONS or sum(counted.values()) > MOST_ROWS or (odd and not _mended(kept, layout)):
            return False
        kept.counted = counted
        with kept.keeper.transaction():
            _empty(kept.keeper, layout, moved - odd)
        return True

    def _end_others(self, kept: Kept) -> None:
        """End all other sessions of the database and wait until they have counted what they did."""
        deadline = time.monotonic() + PATIENCE
        others = [kept.database.name, kept.keeper.info.backend_pid]
        while self._admin.execute(OTHERS, others, prepare=True).fetchall():
            assert time.monotonic() < deadline, f"a session in {kept.database.name} does not end"
            time.sleep(0.001)


def _survey(keeper: psycopg.Connection[Any]) -> Layout:
    """Learn what a fresh database has."""
    tables: dict[int, sql.Composable] = {}
    seeds: dict[int, tuple[sql.Composed, bytes]] = {}
    found = keeper.execute(TABLES).fetchall()
    for oid, schema, name, columns in found:
        if oid < FIRST_OF_OURS:
            continue
        tables[oid] = table = sql.Identifier(schema, name)
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        with keeper.cursor().copy(sql.SQL("copy {} ({}) to stdout").format(table, names)) as copied:
            rows = b"".join(bytes(row) for row in copied)
        if rows:
            seeds[oid] = (sql.SQL("copy {} ({}) from stdin").format(table, names), rows)
    sequences = frozenset(keeper.execute(SEQUENCES).fetchall())
    definitions, lasting = (dict(keeper.execute(about).fetchall()) for about in (DEFINITIONS, LASTING))
    return Layout(tables, [oid for oid, *_ in found], seeds, sequences, definitions, lasting)


def _functions(keeper: psycopg.Connection[Any]) -> dict[int, str]:
    """Every function of ours, with its version."""
    return dict(keeper.execute(VERSIONS, prepare=True).fetchall())


def _mended(kept: Kept, layout: Layout) -> bool:
    """Give functions their old bodies back; False when that does not undo what was done to them."""
    found = _functions(kept.keeper)
    changed = [oid for oid, version in found.items() if version != kept.functions.get(oid)]
    lasting = dict(kept.keeper.execute(f"{LASTING} where p.oid = any(%s)", [changed], prepare=True).fetchall())
    if kept.functions.keys() != found.keys() or any(layout.lasting[oid] != lasting[oid] for oid in changed):
        return False
    for oid in changed:
        kept.keeper.execute(sql.SQL(layout.definitions[oid]))
    kept.functions = _functions(kept.keeper)
    return True


def _empty(keeper: psycopg.Connection[Any], layout: Layout, moved: AbstractSet[int]) -> None:
    """Bring the *moved* tables and all sequences back to what they were."""
    if moved:
        keeper.execute(sql.SQL(";").join(sql.SQL("delete from {}").format(layout.tables[table]) for table in moved))
    for table in moved:
        if table in layout.seeds:
            how, rows = layout.seeds[table]
            with keeper.cursor().copy(how) as copied:
                copied.write(rows)
    for schema, name, start, last in layout.sequences - set(keeper.execute(SEQUENCES).fetchall()):
        keeper.execute(
            "select setval(format('%%I.%%I', %s::text, %s::text)::regclass, %s, %s)",
            [schema, name, start if last is None else last, last is not None],
        )
