"""The line `review`: up and down with data in it, online and offline, beside an engine that stays."""

from __future__ import annotations

import asyncio
import io
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest

from penstock.apps.review.migrations import LINE
from penstock.contract.errors import MigrationFailed, SchemaOutdated
from penstock.embedded import EmbeddedServer
from penstock.store import migrate, roles
from penstock.testing import Harness
from tests.apps.review.core.conftest import TO, Critic, FakeChannel, FakeSource, side
from tests.migrations.catalogs import catalog
from tests.support import clusters, upgraded

BOTH = [migrate.ENGINE, LINE]
TABLES = (
    "reviews", "creation_keys", "recipients", "artifacts", "parts", "questions", "deliveries", "delivery_attempts",
)  # fmt: skip


@pytest.fixture
def empty(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[clusters.Database]:
    """A database without any schema of ours."""
    made = clusters.Database(f"test_{uuid4().hex}", shared_server)
    clusters.create(admin, made.name)
    yield made
    clusters.drop(made, admin)


async def fill(dsn: str) -> None:
    """A review that has succeeded, one that is dead, and one that waits."""
    reviews = side(dsn, FakeSource(), Critic(), FakeChannel())
    async with Harness(reviews.app, dsn) as harness:
        await harness.worker(adapters=lambda: reviews.app.adapters)
        for key in ("good", "dead", "late"):
            if key == "dead":
                reviews.sources.known["shop"].raw = b""  # type: ignore[attr-defined]  # the fake's
            await reviews.create_review(idempotency_key=key, changelist_id=f"shop:{key}", recipients=[TO])
            if key != "late":
                await harness.work_until_idle()
    owner = await asyncpg.connect(dsn)
    await owner.execute(
        "insert into review.questions (job_id, claim_seq, review_id, part) select job_id, 1, review_id, 1 "
        "from review.reviews limit 1"
    )
    await owner.close()


def counted(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as connection:
        return int(connection.execute(f"select count(*) from {table}").fetchall()[0][0])


def test_the_line_is_installed_behind_the_engine() -> None:
    assert LINE in migrate.lines()[1:]


@pytest.mark.contract("D-70")
def test_it_goes_down_with_data_in_every_table_and_up_again_to_the_same_schema(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn)
    bare = catalog(empty.dsn)
    migrate.upgrade(empty.dsn, to=BOTH)
    first, engine = catalog(empty.dsn, "review"), catalog(empty.dsn)
    asyncio.run(fill(empty.dsn))
    assert all(counted(empty.dsn, f"review.{table}") for table in TABLES)

    migrate.downgrade(empty.dsn, "base", of=[LINE])
    assert catalog(empty.dsn) == bare, "nothing of it hangs on the engine any more"
    left = catalog(empty.dsn, "review")
    assert [row[0] for row in left["relations"]] == ["schema_version", "schema_version_pkc"]
    assert left["functions"] == []
    assert counted(empty.dsn, "penstock.jobs") == 3, "the engine's jobs stay"

    migrate.upgrade(empty.dsn, to=BOTH)
    assert catalog(empty.dsn, "review") == first
    assert catalog(empty.dsn) == engine
    assert counted(empty.dsn, "review.reviews") == 0


def test_it_goes_back_past_its_walls_and_up_again_with_every_row(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn, to=BOTH)
    newest = catalog(empty.dsn, "review")
    asyncio.run(fill(empty.dsn))
    rows = {table: counted(empty.dsn, f"review.{table}") for table in TABLES}
    assert all(rows.values())

    migrate.downgrade(empty.dsn, upgraded.FROZEN[LINE.name], of=[LINE])
    assert {table: counted(empty.dsn, f"review.{table}") for table in TABLES} == rows
    migrate.upgrade(empty.dsn, to=BOTH)
    assert {table: counted(empty.dsn, f"review.{table}") for table in TABLES} == rows
    assert catalog(empty.dsn, "review") == newest


def test_the_offline_script_makes_the_same_schema_and_takes_it_down(empty: clusters.Database, dsn: str) -> None:
    script = io.StringIO()
    migrate.upgrade_sql(script, to=BOTH)
    psql = str(clusters.binaries_under_test().directory / "psql")
    run = [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", empty.dsn, "-f", "-"]
    subprocess.run(run, input=script.getvalue(), text=True, check=True, stdout=subprocess.DEVNULL)
    assert catalog(empty.dsn, "review") == catalog(dsn, "review")
    script = io.StringIO()
    migrate.downgrade_sql(script, f"{migrate.versions(LINE)[-1]}:base", of=[LINE])
    subprocess.run(run, input=script.getvalue(), text=True, check=True, stdout=subprocess.DEVNULL)
    assert catalog(empty.dsn, "review")["functions"] == []


def test_a_migration_that_breaks_leaves_nothing_behind(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn)
    with psycopg.connect(empty.dsn) as connection:
        connection.execute("create schema review; create table review.deliveries (n integer)")
    before = catalog(empty.dsn), catalog(empty.dsn, "review")
    with pytest.raises(MigrationFailed, match="nothing was changed"):
        migrate.upgrade(empty.dsn, to=BOTH)
    assert (catalog(empty.dsn), catalog(empty.dsn, "review")) == before


def test_without_the_engine_it_is_refused(empty: clusters.Database) -> None:
    with pytest.raises((MigrationFailed, SchemaOutdated)):
        migrate.upgrade(empty.dsn, to=[LINE])


async def test_grants_given_by_hand_are_taken_away(dsn: str, role_dsn: Callable[[str], str]) -> None:
    owner = await asyncpg.connect(dsn)
    await owner.execute(f"grant select on review.artifacts to {roles.OPERATOR}")
    await owner.execute(f"revoke select on review.reviews from {roles.WORKER}")
    await roles.apply_grants(dsn)
    operator, worker = [await asyncpg.connect(role_dsn(role)) for role in (roles.OPERATOR, roles.WORKER)]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await operator.execute("select diff from review.artifacts")
    await worker.execute("select from review.reviews")
    for connection in (owner, operator, worker):
        await connection.close()


async def test_every_statement_of_the_application_is_understood_by_the_server(dsn: str) -> None:
    owner = await asyncpg.connect(dsn)
    for path in sorted((Path(LINE.versions).parents[1] / "sql").rglob("*.sql")):
        await owner.prepare(path.read_text())
    await owner.close()
