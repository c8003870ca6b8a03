"""One worker process for the tests of a module. Properties have all the time that a busy machine takes."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from hypothesis import settings

from penstock.embedded import EmbeddedServer
from tests.support import clusters
from tests.support.desk import Desk, open_desk
from tests.support.desks import desk, free_port, penstock
from tests.support.processes import WorkerProcess

__all__ = ["desk", "free_port", "penstock"]

settings.register_profile("patient", deadline=None, print_blob=True)
settings.load_profile("patient")


@dataclass(frozen=True)
class Office:
    """A database with a worker process on it, named `scribe`, that logs everything and serves /metrics."""

    desk: Desk
    worker: WorkerProcess
    port: int


@pytest.fixture(scope="module")
def office(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[Office]:
    database = clusters.clone(shared_server, admin)
    opened = open_desk(database.dsn, database.role_dsn("penstock_worker"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    options = ("--name", "scribe", "--log-level", "debug", "--metrics-port", str(port), "--poll-seconds", "0.5")
    yield Office(opened, opened.worker(*options).ready(), port)
    opened.clear_away()
    clusters.drop(database, admin)
