"""Databases for tests of migrations: empty ones, owned by a role that is no superuser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store.migrate import Line
from tests.support import clusters

LEDGER: Final = Line("ledger", Path(__file__).parent / "line" / "versions", "ledger")


@pytest.fixture
def empty(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[clusters.Database]:
    """A database without any schema of ours."""
    made = clusters.Database(f"test_{uuid4().hex}", shared_server)
    admin.execute(f"create database {made.name} owner penstock")
    yield made
    clusters.drop(made, admin)


@pytest.fixture
def ledger() -> Line:
    """The line of a made-up application."""
    return LEDGER
