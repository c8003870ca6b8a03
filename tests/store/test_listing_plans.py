"""Listings on a loaded table: each stands on an index and reads little, whatever waits or rests beside it."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store.statements import sql
from tests.support import clusters

FINISHED, WAITING, FUTURE = 25_000, 10_000, 10_000
LITTLE = 400  # blocks of 8 kB; the whole table has thousands


@pytest.fixture(scope="module")
def loaded(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Many finished jobs, a backlog of another type, many jobs of the future."""
    database = clusters.clone(shared_server, admin)
    with psycopg.connect(database.dsn, autocommit=True) as db:
        for name in ("wanted", "busy"):
            db.execute(
                "insert into penstock.types (job_type, policy, stages, max_attempts) values (%s, '{}', '{run}', 5)",
                (name,),
            )
        _load(db)
        db.execute("vacuum analyze penstock.jobs")
        yield db
    clusters.drop(database, admin)


def _load(db: psycopg.Connection[Any]) -> None:
    put = "select count(penstock.enqueue(%s, delay => %s)) from generate_series(1, %s)"
    db.execute(put, ("busy", None, FINISHED))
    db.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'w', claimed_at = now(), "
        "lease_expires_at = now()"
    )
    db.execute("update penstock.jobs set status = 'completed', lease_expires_at = null, finished_at = now()")
    db.execute(put, ("busy", None, WAITING))
    db.execute(put, ("busy", "1 hour", FUTURE))
    db.execute(put, ("wanted", None, 100))


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
