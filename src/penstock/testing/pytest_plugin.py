"""Fixtures for pytest: put `pytest_plugins = ["penstock.testing.pytest_plugin"]` into your conftest.py.

    penstock_admin_dsn   a server for tests: PENSTOCK_TEST_DSN, which needs CREATEDB, or an embedded one
    penstock_dsn         a fresh, migrated database for one test
    penstock_harness     `async with penstock_harness(app) as h:` on that database

Every test has a database of its own, copied from a template in some
milliseconds, so tests need no order and no cleaning.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pytest

from penstock.store import databases
from penstock.testing.harness import Harness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

FAST: Final = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}  # nothing here must last


@pytest.fixture(scope="session")
def penstock_admin_dsn() -> Iterator[str]:
    """A server whose databases tests may make and drop."""
    given = os.environ.get("PENSTOCK_TEST_DSN")
    if given:
        yield given
        return
    from penstock.embedded import EmbeddedServer

    home = Path(tempfile.mkdtemp(prefix="penstock-pytest-"))
    home.chmod(0o711)  # the account that runs root's server must reach it
    server = EmbeddedServer(home, settings=FAST)
    server.start()
    yield server.superuser_url("postgres")
    server.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def penstock_template(penstock_admin_dsn: str) -> Iterator[str]:
    """The name of a database with the newest schema of every installed line."""
    name = _outside_any_loop(lambda: asyncio.run(databases.create(penstock_admin_dsn)))
    _outside_any_loop(partial(_migrate, databases.dsn_of(penstock_admin_dsn, name)))
    yield name
    _outside_any_loop(lambda: asyncio.run(databases.drop(penstock_admin_dsn, name)))


@pytest.fixture
def penstock_dsn(penstock_admin_dsn: str, penstock_template: str) -> Iterator[str]:
    """The DSN of a fresh database for this test alone."""
    name = _outside_any_loop(lambda: asyncio.run(databases.create(penstock_admin_dsn, template=penstock_template)))
    yield databases.dsn_of(penstock_admin_dsn, name)
    _outside_any_loop(lambda: asyncio.run(databases.drop(penstock_admin_dsn, name)))


@pytest.fixture
def penstock_harness(penstock_dsn: str) -> Callable[..., Harness]:
    """A harness for an application on this test's database."""
    return lambda app, **options: Harness(app, penstock_dsn, **options)


def _migrate(dsn: str) -> None:
    from penstock.store import migrate

    migrate.upgrade(dsn, to=migrate.lines())


def _outside_any_loop(call: Callable[[], T]) -> T:
    """Run *call* in a thread of its own: it starts an event loop, and the test may have one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(call).result()
