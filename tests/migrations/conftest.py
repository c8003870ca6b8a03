"""Databases for tests of migrations: empty ones, owned by a role that is no superuser."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store.migrate import Line
from tests.migrations.ledger import LEDGER
from tests.support import clusters


@pytest.fixture
def template() -> str:
    """The engine alone: these tests compare its schema with what a migration makes."""
    return clusters.BARE_TEMPLATE


@pytest.fixture(autouse=True)
def _engine_and_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """The applications that ship with Penstock have tests of their own; here they are not installed."""
    monkeypatch.setattr("penstock.store.lines.entry_points", _installed)


def _installed(group: str) -> list[EntryPoint]:
    return [point for point in entry_points(group=group) if point.dist is None or point.dist.name != "penstock"]


@pytest.fixture
def empty(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[clusters.Database]:
    """A database without any schema of ours."""
    made = clusters.Database(f"test_{uuid4().hex}", shared_server)
    clusters.create(admin, made.name)
    yield made
    clusters.drop(made, admin)


@pytest.fixture
def ledger() -> Line:
    """The line of a made-up application."""
    return LEDGER
