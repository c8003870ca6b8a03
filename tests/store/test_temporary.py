"""TEMPORARY taken from everybody but a database's owner: by whom, seen by whom, and again without harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import psycopg
import pytest
from typer.testing import CliRunner

from penstock.cli import cli
from penstock.contract.errors import PenstockError
from penstock.store import roles, temporary
from tests.support import clusters

pytestmark = pytest.mark.contract("C-68")


@pytest.fixture
def open_to_all(database: clusters.Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[clusters.Database]:
    """A database as PostgreSQL makes it: everybody may make temporary objects in it."""
    with psycopg.connect(database.superuser_dsn, autocommit=True) as admin:
        admin.execute(f"grant temporary on database {database.name} to public")
        monkeypatch.setenv("PENSTOCK_DSN", database.dsn)
        monkeypatch.setenv("PENSTOCK_ADMIN_DSN", database.superuser_dsn)
        yield database
        admin.execute(f"revoke temporary on database {database.name} from public")


def makes_one(dsn: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as connection:
        try:
            connection.execute("create temporary table t ()")
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True


def listed() -> set[bool]:
    return {row["temporary"] for row in json.loads(CliRunner().invoke(cli, ["roles", "list", "--json"]).stdout)}


def test_the_command_takes_it_from_every_role_and_leaves_it_to_the_owner(
    open_to_all: clusters.Database, role_dsn: Callable[[str], str]
) -> None:
    assert makes_one(role_dsn(roles.WORKER))
    assert listed() == {True}
    for _ in range(2):
        done = CliRunner().invoke(cli, ["roles", "create", "--revoke-temporary", "--json"])
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["temporary_revoked"] == open_to_all.name
    assert listed() == {False}
    assert not any(makes_one(role_dsn(role)) for role in roles.ROLES)
    assert makes_one(open_to_all.dsn)


def test_a_right_of_one_role_alone_is_taken_too(open_to_all: clusters.Database, role_dsn: Callable[[str], str]) -> None:
    with psycopg.connect(open_to_all.dsn, autocommit=True) as owner:
        owner.execute(f"grant temporary on database {open_to_all.name} to {roles.WORKER}")
    assert CliRunner().invoke(cli, ["roles", "create", "--revoke-temporary"]).exit_code == 0
    assert not makes_one(role_dsn(roles.WORKER))


@pytest.mark.usefixtures("open_to_all")
def test_without_the_option_nothing_is_taken(role_dsn: Callable[[str], str]) -> None:
    assert CliRunner().invoke(cli, ["roles", "create"]).exit_code == 0
    assert makes_one(role_dsn(roles.WORKER))


@pytest.mark.usefixtures("open_to_all")
def test_a_login_that_does_not_own_the_database_learns_which_one_does(role_dsn: Callable[[str], str]) -> None:
    refused = "'penstock_operator' does not own the database .*; 'penstock' does"
    with pytest.raises(PenstockError, match=refused):
        asyncio.run(temporary.revoke(role_dsn(roles.OPERATOR)))
    assert makes_one(role_dsn(roles.WORKER))
