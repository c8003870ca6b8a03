"""Listings on a loaded table: each stands on an index and reads little, whatever waits or rests beside it."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store.statements import sql
from tests.store.loaded import CLAIMED, insert
from tests.support import clusters

LITTLE = 400  # blocks of 8 kB; the whole table has thousands
TYPES = """insert into penstock.types (job_type, policy, stages, max_attempts)
           values ('wanted', '{}', '{run}', 5), ('busy', '{}', '{run}', 5)"""
# As ids of jobs that came one after the other: uuid7 itself cannot tell jobs of one millisecond apart.
IN_ORDER = {"job_id": "(lpad(to_hex(nextval('pg_temp.ids')), 12, '0') || substr(md5(n::text), 1, 20))::uuid"}
BUSY = {**IN_ORDER, "job_type": "'busy'"}
KINDS: list[tuple[int, dict[str, str]]] = [
    (25_000, {**BUSY, **CLAIMED, "status": "'completed'", "finished_at": "now()"}),
    (10_000, BUSY),
    (10_000, {**BUSY, "ready": "false", "run_at": "now() + interval '1 hour'"}),
    (100, {**IN_ORDER, "job_type": "'wanted'"}),
]


@pytest.fixture(scope="module")
def loaded(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Many finished jobs, a backlog of another type, many jobs of the future."""
    database = clusters.clone(shared_server, admin)
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(TYPES)
        superuser.execute("create temporary sequence ids")
        superuser.execute("set session_replication_role = replica")
        for number, kind in KINDS:
            insert(superuser, number, kind)
        superuser.execute("vacuum analyze penstock.jobs")
    with psycopg.connect(database.dsn, autocommit=True) as db:
        yield db
    clusters.drop(database, admin)


def plan(db: psycopg.Connection[Any], name: str, *arguments: object, generic: bool) -> dict[str, Any]:
    """Run the statement as asyncpg does, prepared, and return its plan with what it read."""
    text = sql(name).rstrip().rstrip(";")
    types = {"jobs/list_recent": "(text, text, uuid, bigint, bigint)", "jobs/list_queued": "(text, bigint)",
             "jobs/list_processing": "(text, bigint)", "jobs/list_failed": "(text, bigint)", "jobs/stats": "(bigint)",
             "jobs/depths": ""}[name]  # fmt: skip
    db.execute(f"set plan_cache_mode = {'force_generic_plan' if generic else 'force_custom_plan'}")
    db.execute(f"prepare listing {types} as {text}")
    try:
        values = ", ".join("null" if value is None else f"'{value}'" for value in arguments)
        call = f"execute listing({values})" if arguments else "execute listing"
        row = db.execute(f"explain (analyze, buffers, format json) {call}").fetchone()
    finally:
        db.execute("deallocate listing")
    assert row is not None
    found: dict[str, Any] = (row[0] if isinstance(row[0], list) else json.loads(row[0]))[0]["Plan"]
    return found


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from nodes(child)


@pytest.mark.parametrize("generic", [True, False], ids=["generic", "custom"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("jobs/list_recent", (None, None, None, 50, 100_000)),
        ("jobs/list_queued", ("wanted", 50)),
        ("jobs/list_queued", (None, 50)),
        ("jobs/list_processing", (None, 50)),
        ("jobs/list_failed", (None, 50)),
        ("jobs/list_failed", ("wanted", 50)),
    ],
)
def test_a_listing_reads_little(
    loaded: psycopg.Connection[Any], name: str, arguments: tuple[object, ...], generic: bool
) -> None:
    found = plan(loaded, name, *arguments, generic=generic)
    assert not [node for node in nodes(found) if node["Node Type"] == "Seq Scan" and node["Relation Name"] == "jobs"]
    assert found["Shared Hit Blocks"] + found["Shared Read Blocks"] < LITTLE, json.dumps(found, indent=1)


@pytest.mark.parametrize("generic", [True, False], ids=["generic", "custom"])
def test_stats_count_no_further_than_they_say(loaded: psycopg.Connection[Any], generic: bool) -> None:
    found = plan(loaded, "jobs/stats", 1000, generic=generic)
    scans = [node for node in nodes(found) if node.get("Relation Name") == "jobs"]
    assert scans
    assert all("Index" in node["Node Type"] or "Bitmap" in node["Node Type"] for node in scans)
    assert max(node["Actual Rows"] for node in scans) <= 1000


def test_a_rare_type_is_looked_for_within_bounds(loaded: psycopg.Connection[Any]) -> None:
    found = plan(loaded, "jobs/list_recent", "nowhere", None, None, 50, 1000, generic=True)
    assert max(node["Actual Rows"] for node in nodes(found)) <= 1000
    assert found["Shared Hit Blocks"] + found["Shared Read Blocks"] < LITTLE
