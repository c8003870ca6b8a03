"""Without the schema, or with another version of it, everything says what to do."""

import psycopg
import pytest

from penstock import Penstock
from penstock.contract.errors import SchemaOutdated
from penstock.testing import Harness
from tests.support import clusters


def application(dsn: str) -> Penstock:
    app = Penstock(dsn)

    @app.job("note")
    async def note() -> None: ...

    return app


async def test_an_enqueue_without_a_schema_says_migrate_up(empty: clusters.Database) -> None:
    async with application(empty.dsn) as app:
        with pytest.raises(SchemaOutdated, match="penstock migrate up"):
            await app.enqueue("note", {"n": 1})
        with pytest.raises(SchemaOutdated, match="penstock migrate up"):
            await app.enqueue_many("note", [{"n": 1}])


async def test_a_worker_without_a_schema_says_migrate_up(empty: clusters.Database) -> None:
    worker = application(empty.dsn).worker()
    with pytest.raises(SchemaOutdated, match="penstock migrate up"):
        await worker.run()


async def test_a_worker_refuses_a_schema_of_another_version(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("update penstock.schema_version set version_num = '9999'")
    worker = application(dsn).worker()
    with pytest.raises(SchemaOutdated, match="9999"):
        await worker.run()


async def test_a_harness_without_a_schema_says_migrate_up(empty: clusters.Database) -> None:
    with pytest.raises(SchemaOutdated, match="penstock migrate up"):
        async with Harness(application(empty.dsn)):
            pass
