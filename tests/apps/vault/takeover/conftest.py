"""Databases from before the take-over: the engine and the vault at version 0001, with an outbox as it was."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock.apps.vault.migrations import LINE
from penstock.embedded import EmbeddedServer
from penstock.store import migrate
from tests.apps.vault.takeover.outbox import Outbox
from tests.support import clusters

BEFORE = "penstock_template_outbox"


@pytest.fixture(scope="session")
def before(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> str:
    """A template of that time, made once for all workers of a run."""
    with (shared_server.path / "outbox.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not admin.execute("select from pg_database where datname = %s", [BEFORE]).fetchall():
            admin.execute(f"create database {BEFORE} template {clusters.TEMPLATE} owner penstock")
            migrate.downgrade(shared_server.url(database=BEFORE), "0001", of=[LINE])
            admin.execute(f"alter database {BEFORE} allow_connections false")
    return BEFORE


@pytest.fixture
def template(before: str) -> str:
    """Tests in this folder begin before the take-over."""
    return before


@pytest.fixture
def outbox(database: clusters.Database) -> Iterator[Outbox]:
    """The outbox of a fresh database, and both ways."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        yield Outbox(database, connection)
