"""Databases from before the take-over: the engine and the vault at version 0001, with an outbox as it was."""

from __future__ import annotations

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

    def go_back(dsn: str) -> None:
        migrate.downgrade(dsn, "0001", of=[LINE])

    return clusters.template_from(clusters.TEMPLATE, BEFORE, go_back, shared_server, admin)


@pytest.fixture
def template(before: str) -> str:
    """Tests in this folder begin before the take-over."""
    return before


@pytest.fixture
def outbox(database: clusters.Database) -> Iterator[Outbox]:
    """The outbox of a fresh database, and both ways."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        yield Outbox(database, connection)
