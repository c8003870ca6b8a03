"""What every test may ask for: a database of its own on a real PostgreSQL.

    database       a fresh database, cloned from the migrated template: the engine and all applications
    dsn            its DSN as the owner, who is no superuser
    superuser_dsn  its DSN as superuser, for what only a superuser may do
    role_dsn       its DSN as one of the five roles: role_dsn("penstock_worker")
    home           an empty PENSTOCK_HOME for an embedded server, cleared afterwards
    server         a private server to stop, kill and restart (slower)

PG=15 runs everything on the installed PostgreSQL 15.
"""

import gc
import math
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from penstock.embedded import EmbeddedServer, EmbeddedServerError
from tests.support import clusters, fork_server, forks, servers
from tests.support.stock import Stock

pytest_plugins = ["tests.support.contract_report", "tests.support.parallel"]

RUN = pytest.StashKey[tuple[Path, int]]()  # its directory, and the lock that says it is wanted
STARTER = pytest.StashKey[ForkProcess]()
GARBAGE = 20_000  # new objects before the youngest are looked through; Python's own is 700

gc.disable()  # until the tests are collected: nothing that is imported or collected is garbage


def pytest_configure(config: pytest.Config) -> None:
    """Name the directory of the shared server."""
    try:
        clusters.binaries_under_test()
    except EmbeddedServerError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[RUN] = clusters.open_session_directory()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let another process start the servers while this one collects, when many tests will need them."""
    if session.config.getoption("--in-parallel") > 1 and not session.config.option.collectonly:
        session.config.stash[STARTER] = multiprocessing.get_context("fork").Process(target=_start_servers)
        session.config.stash[STARTER].start()


def _start_servers() -> None:
    with suppress(Exception):  # the first test that needs one will tell
        clusters.prepare(clusters.session_server())
        forks.begin()


def pytest_forked(config: pytest.Config) -> None:
    """Leave the server, and the lock that says it is wanted, to the process that forked this one."""
    os.close(config.stash[RUN][1])
    del config.stash[RUN]
    del config.stash[STARTER]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the servers, however the run ended."""
    starter = config.stash.get(STARTER, None)
    if starter is not None:
        starter.join()
    run = config.stash.get(RUN, None)
    if run is not None:
        clusters.close_session_directory(*run)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Import once what each process would, and keep the garbage collector away from what lives as long as the run.

    Thousands of collected tests and all imported modules were looked through
    again and again, for a fifth of the time of a run.
    """
    if STARTER in session.config.stash:
        fork_server.load()
    gc.freeze()
    gc.set_threshold(GARBAGE)
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest tests, spread over the processes: one that begins last keeps two processors waiting."""
    longest = [item for item in items if item.get_closest_marker("long")]
    others = [item for item in items if not item.get_closest_marker("long")]
    processes = config.getoption("--in-parallel")
    share = math.ceil(len(others) / processes)  # each begins with one piece of the list
    items[:] = [
        item
        for number in range(processes)
        for item in (*longest[number::processes], *others[number * share : (number + 1) * share])
    ]


@pytest.fixture(scope="session")
def shared_server() -> EmbeddedServer:
    """The server of this run with its template; tests take `database` instead."""
    server = clusters.session_server()
    clusters.prepare(server)
    return server


@pytest.fixture(scope="session")
def admin(shared_server: EmbeddedServer) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's connection that makes and drops databases."""
    with psycopg.connect(shared_server.superuser_url("postgres"), autocommit=True) as connection:
        yield connection


@pytest.fixture
def template() -> str:
    """What a fresh database is cloned from: the engine and all applications.

    Tests of the engine that put made-up jobs under the name of an application's
    type say `clusters.BARE_TEMPLATE` here: its rules would refuse them.
    """
    return clusters.TEMPLATE


@pytest.fixture(scope="session")
def stock(shared_server: EmbeddedServer, admin: psycopg.Connection[Any]) -> Iterator[Stock]:
    """The databases of this process; tests take `database` instead."""
    with Stock(shared_server, admin) as opened:
        yield opened


@pytest.fixture
def database(stock: Stock, template: str) -> Iterator[clusters.Database]:
    """A fresh database for this test alone."""
    made = stock.take(template)
    yield made
    stock.give_back(made)


@pytest.fixture
def dsn(database: clusters.Database) -> str:
    """The DSN of the database's owner."""
    return database.dsn


@pytest.fixture
def superuser_dsn(database: clusters.Database) -> str:
    """The superuser's DSN of the same database."""
    return database.superuser_dsn


@pytest.fixture
def role_dsn(database: clusters.Database) -> Callable[[str], str]:
    """The DSN of the same database for a role by name."""
    return database.role_dsn


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home that the server's account can reach; a server left there is stopped."""
    path = clusters.new_home("home")
    yield path
    clusters.remove_server(EmbeddedServer(path))


@pytest.fixture
def server() -> Iterator[servers.PrivateServer]:
    """A private server, with roles and schema, that the test may break."""
    private = servers.private_server()
    yield private
    private.thaw()
    clusters.remove_server(private.embedded)
