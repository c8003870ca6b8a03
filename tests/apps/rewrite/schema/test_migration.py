"""The line `rewrite`: up and down with data in it, online and offline, beside an engine that stays."""

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

from penstock.apps.rewrite.migrations import LINE
from penstock.contract.errors import MigrationFailed, SchemaOutdated
from penstock.embedded import EmbeddedServer
from penstock.store import migrate, roles
from tests.apps.rewrite.estate import open_estate
from tests.migrations.catalogs import catalog
from tests.support import clusters, upgraded

BOTH = [migrate.ENGINE, LINE]
TABLES = (
    "homes", "home_keys", "users", "home_members", "recipient_snapshots", "recipient_snapshot_members",
    "recipient_preference_snapshots", "rewrite_requests", "rewrite_jobs", "rewrite_outputs",
)  # fmt: skip


@pytest.fixture
def empty(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[clusters.Database]:
    """A database without any schema of ours."""
    made = clusters.Database(f"test_{uuid4().hex}", shared_server)
    clusters.create(admin, made.name)
    yield made
    clusters.drop(made, admin)


async def fill(dsn: str, role_dsn: Callable[[str], str]) -> None:
    """A completed, a failed and a waiting request of two homes."""
    async with open_estate(dsn, role_dsn) as estate:
        home = await estate.home()
        await estate.completed(home)
        unit, _ = await estate.claimed(home)
        await estate.fail(unit)
        await estate.queued(await estate.home())


def counted(dsn: str, table: str) -> int:
    with psycopg.connect(dsn) as connection:
        return int(connection.execute(f"select count(*) from {table}").fetchall()[0][0])


def test_the_line_is_installed_behind_the_engine() -> None:
    assert [line.name for line in migrate.lines()][:1] == ["engine"]
    assert LINE in migrate.lines()


@pytest.mark.contract("D-70")
def test_it_goes_down_with_data_in_it_and_up_again_to_the_same_schema(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn)
    bare = catalog(empty.dsn)
    migrate.upgrade(empty.dsn, to=BOTH)
    first, engine = catalog(empty.dsn, "rewrite"), catalog(empty.dsn)
    asyncio.run(fill(empty.dsn, empty.role_dsn))
    assert counted(empty.dsn, "rewrite.rewrite_requests") == 3

    migrate.downgrade(empty.dsn, "base", of=[LINE])
    assert catalog(empty.dsn) == bare
    left = catalog(empty.dsn, "rewrite")
    assert [row[0] for row in left["relations"]] == ["schema_version", "schema_version_pkc"]
    assert left["functions"] == []
    assert counted(empty.dsn, "penstock.jobs") == 3, "the engine's jobs stay"

    migrate.upgrade(empty.dsn, to=BOTH)
    assert catalog(empty.dsn, "rewrite") == first
    assert catalog(empty.dsn) == engine
    assert counted(empty.dsn, "rewrite.rewrite_requests") == 0


def test_it_goes_back_past_its_walls_and_up_again_with_every_row(empty: clusters.Database) -> None:
    migrate.upgrade(empty.dsn, to=BOTH)
    newest = catalog(empty.dsn, "rewrite")
    asyncio.run(fill(empty.dsn, empty.role_dsn))
    rows = {table: counted(empty.dsn, f"rewrite.{table}") for table in TABLES}
    assert all(rows.values())

    migrate.downgrade(empty.dsn, upgraded.FROZEN[LINE.name], of=[LINE])
    assert {table: counted(empty.dsn, f"rewrite.{table}") for table in TABLES} == rows
    migrate.upgrade(empty.dsn, to=BOTH)
    assert {table: counted(empty.dsn, f"rewrite.{table}") for table in TABLES} == rows
    assert catalog(empty.dsn, "rewrite") == newest


def test_the_offline_script_makes_the_same_schema_and_takes_it_down(empty: clusters.Database, dsn: str) -> None:
    script = io.StringIO()
    migrate.upgrade_sql(script, to=BOTH)
    psql = str(clusters.binaries_under_test().directory / "psql")
    run = [psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", empty.dsn, "-f", "-"]
    subprocess.run(run, input=script.getvalue(), text=True, check=True, stdout=subprocess.DEVNULL)
    assert catalog(empty.dsn, "rewrite") == catalog(dsn, "rewrite")
    assert all(state.up_to_date for state in migrate.status(empty.dsn, BOTH))
    script = io.StringIO()
    migrate.downgrade_sql(script, f"{migrate.versions(LINE)[-1]}:base", of=[LINE])
    subprocess.run(run, input=script.getvalue(), text=True, check=True, stdout=subprocess.DEVNULL)
    assert catalog(empty.dsn, "rewrite")["functions"] == []


def test_a_migration_that_breaks_leaves_nothing_behind(empty: clusters.Database) -> None:
    """All of it is one transaction: a name that is taken half-way stops everything."""
    migrate.upgrade(empty.dsn)
    with psycopg.connect(empty.dsn) as connection:
        connection.execute("create schema rewrite; create table rewrite.rewrite_outputs (n integer)")
    before = catalog(empty.dsn), catalog(empty.dsn, "rewrite")
    with pytest.raises(MigrationFailed, match="nothing was changed"):
        migrate.upgrade(empty.dsn, to=BOTH)
    assert (catalog(empty.dsn), catalog(empty.dsn, "rewrite")) == before


def test_without_the_engine_it_is_refused(empty: clusters.Database) -> None:
    with pytest.raises((MigrationFailed, SchemaOutdated)):
        migrate.upgrade(empty.dsn, to=[LINE])
    assert catalog(empty.dsn, "rewrite") == {}


def test_the_engine_cannot_go_down_under_it(dsn: str) -> None:
    with pytest.raises(MigrationFailed, match="nothing was changed"):
        migrate.downgrade(dsn, "base")
    assert all(state.up_to_date for state in migrate.status(dsn, BOTH))


async def test_grants_given_by_hand_are_taken_away_with_the_engines(dsn: str, role_dsn: Callable[[str], str]) -> None:
    owner = await asyncpg.connect(dsn)
    await owner.execute(f"grant select on rewrite.preferences to {roles.WORKER}")
    await owner.execute(f"grant update (sender_reveal_at) on rewrite.rewrite_requests to {roles.WORKER}")
    await owner.execute(f"revoke select on rewrite.rewrite_jobs from {roles.WORKER}")
    worker = await asyncpg.connect(role_dsn(roles.WORKER))
    await worker.execute("select from rewrite.preferences")
    assert await roles.apply_grants(dsn) == sorted(roles.ROLES)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await worker.execute("select from rewrite.preferences")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await worker.execute("update rewrite.rewrite_requests set sender_reveal_at = null where false")
    await worker.execute("select from rewrite.rewrite_jobs")
    await owner.close()
    await worker.close()


def test_every_statement_of_the_application_is_understood_by_the_server(dsn: str) -> None:
    folder = Path(LINE.versions).parents[1] / "sql"

    async def prepare() -> None:
        owner = await asyncpg.connect(dsn)
        for path in sorted(folder.rglob("*.sql")):
            await owner.prepare(path.read_text())
        await owner.close()

    asyncio.run(prepare())
