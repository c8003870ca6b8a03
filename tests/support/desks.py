"""Fixtures of tests that run commands and worker processes; a conftest takes them with `from … import`."""

import socket
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner, Result

from penstock.cli import cli
from penstock.telemetry import logs
from tests.support.desk import Desk, open_desk

Command = Callable[..., Result]


@pytest.fixture
def desk(dsn: str, role_dsn: Callable[[str], str]) -> Iterator[Desk]:
    """The owner's look at this test's database, and its worker processes."""
    opened = open_desk(dsn, role_dsn("penstock_worker"))
    yield opened
    opened.clear_away()


@pytest.fixture
def penstock(role_dsn: Callable[[str], str]) -> Iterator[Command]:
    """A function that runs a command in this process, logged in as a role."""

    def invoke(*arguments: str, role: str = "penstock_operator", stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, arguments, input=stdin, env={"PENSTOCK_DSN": role_dsn(role)})

    yield invoke
    logs.reset()


@pytest.fixture
def free_port() -> Callable[[], int]:
    """A port that nobody uses at this moment."""

    def find() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
            return port

    return find
