"""Making the roles: by a command of its own, safely, and without a password in sight."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from typer.testing import CliRunner

from penstock.cli import cli
from penstock.contract.errors import DatabaseUnavailable, PenstockError
from penstock.store import migrate, roles
from penstock.store.passwords import verifier
from tests.support import clusters, servers

PASSWORD = "hunter2 'quoted' ünï\u00a0code"  # noqa: S105 - made up here


@pytest.fixture(scope="module")
def bare() -> Iterator[servers.PrivateServer]:
    """A server of this module alone, whose roles the tests drop and make again."""
    private = servers.private_server()
    yield private
    clusters.remove_server(private.embedded)


@pytest.fixture
def without_roles(bare: servers.PrivateServer) -> servers.PrivateServer:
    """The server without any of the five roles."""
    with psycopg.connect(bare.superuser_dsn, autocommit=True) as connection:
        for role in roles.ROLES:
            if connection.execute("select true from pg_roles where rolname = %s", [role]).fetchall():
                connection.execute(f"drop owned by {role}; drop role {role}")
    return bare


def attributes(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "select rolname, rolcanlogin, rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication "
            "from pg_roles where rolname = any(%s) order by 1",
            [list(roles.ROLES)],
        ).fetchall()


def stored_password(dsn: str, role: str) -> str | None:
    with psycopg.connect(dsn) as connection:
        value: str | None = connection.execute(
            "select rolpassword from pg_authid where rolname = %s", [role]
        ).fetchall()[0][0]
        return value


async def test_the_roles_are_made_once_and_bound_by_every_rule(without_roles: servers.PrivateServer) -> None:
    dsn = without_roles.superuser_dsn
    assert await roles.create_roles(dsn) == list(roles.ROLES)
    assert await roles.create_roles(dsn) == []
    assert attributes(dsn) == [(role, True, False) for role in sorted(roles.ROLES)]


async def test_two_who_make_the_roles_at_once_both_succeed(without_roles: servers.PrivateServer) -> None:
    elsewhere = without_roles.embedded.superuser_url("postgres")
    made = await asyncio.gather(
        *(roles.create_roles(dsn) for dsn in (without_roles.superuser_dsn, elsewhere, elsewhere))
    )
    assert sorted(name for names in made for name in names) == sorted(roles.ROLES)


async def test_an_admin_needs_createrole_and_no_more(without_roles: servers.PrivateServer) -> None:
    with psycopg.connect(without_roles.superuser_dsn, autocommit=True) as connection:
        connection.execute("drop role if exists clerk")
        connection.execute("create role clerk login createrole")
    assert await roles.create_roles(without_roles.role_dsn("clerk")) == list(roles.ROLES)
    with pytest.raises(PenstockError, match="CREATEROLE"):
        await roles.create_roles(without_roles.dsn, {roles.WORKER: "x"}, reset_passwords=True)


async def test_a_password_is_kept_as_the_server_itself_would_keep_it(without_roles: servers.PrivateServer) -> None:
    dsn = without_roles.superuser_dsn
    await roles.create_roles(dsn, {roles.WORKER: PASSWORD})
    kept = stored_password(dsn, roles.WORKER)
    assert kept is not None
    assert PASSWORD not in kept
    with psycopg.connect(dsn, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(f"alter role {roles.OPERATOR} password %s", [PASSWORD])
    by_server = stored_password(dsn, roles.OPERATOR)
    assert by_server is not None
    salt = base64.b64decode(by_server.split("$")[1].split(":")[1])
    assert verifier(PASSWORD, salt=salt) == by_server


@contextmanager
def passwords_asked_for(dsn: str) -> Iterator[None]:
    """The server asks the worker's login for its password."""
    rules = Path(_ask(dsn, "show hba_file"))
    before = rules.read_text()
    rules.write_text(f"local all {roles.WORKER} scram-sha-256\n{before}")
    try:
        reload_settings(dsn)
        yield
    finally:
        rules.write_text(before)
        reload_settings(dsn)


def reload_settings(dsn: str) -> None:
    """Let the server read its files again, and wait until new sessions go by them."""
    loaded = "select pg_conf_load_time()"
    before = _ask(dsn, loaded)
    _ask(dsn, "select pg_reload_conf()")
    deadline = time.monotonic() + 10
    while _ask(dsn, loaded) == before:
        assert time.monotonic() < deadline, "the server did not read its settings"


async def test_a_role_logs_in_with_its_password_and_with_no_other(without_roles: servers.PrivateServer) -> None:
    dsn = without_roles.superuser_dsn
    await roles.create_roles(dsn, {roles.WORKER: "first"})
    await roles.create_roles(dsn, {roles.WORKER: "second"})
    with passwords_asked_for(dsn):
        await _logs_in(without_roles, "first")
        with pytest.raises(asyncpg.InvalidPasswordError):
            await _logs_in(without_roles, "second")
        await roles.create_roles(dsn, {roles.WORKER: "second"}, reset_passwords=True)
        await _logs_in(without_roles, "second")


async def test_no_password_reaches_the_log_of_a_server_that_logs_everything(
    without_roles: servers.PrivateServer,
) -> None:
    dsn = without_roles.superuser_dsn
    _execute(dsn, "alter system set log_statement = 'all'")
    reload_settings(dsn)
    try:
        await roles.create_roles(dsn, {roles.WORKER: "hunter2"})
    finally:
        _execute(dsn, "alter system reset log_statement")
        reload_settings(dsn)
    log = without_roles.embedded.home.log.read_text(errors="replace")
    assert "SCRAM-SHA-256" in log, "the statement was logged"
    assert "hunter2" not in log


async def test_a_server_that_is_away_is_told_without_the_password() -> None:
    with pytest.raises(DatabaseUnavailable) as raised:
        await roles.create_roles("postgresql://admin:hunter2@127.0.0.1:1/none")
    assert "hunter2" not in str(raised.value)


def test_the_command_makes_lists_and_grants(
    without_roles: servers.PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", without_roles.dsn)
    monkeypatch.setenv("PENSTOCK_ADMIN_DSN", without_roles.superuser_dsn)
    monkeypatch.setenv("PENSTOCK_WORKER_PASSWORD", "hunter2")
    run = CliRunner().invoke
    missing = run(cli, ["roles", "list", "--json"])
    assert missing.exit_code == 3
    assert [row["exists"] for row in json.loads(missing.stdout)] == [False] * 5

    made = run(cli, ["roles", "create", "--json"])
    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout) == {"created": list(roles.ROLES), "granted": sorted(roles.ROLES)}
    assert "hunter2" not in made.output
    assert (stored_password(without_roles.superuser_dsn, roles.WORKER) or "").startswith("SCRAM-SHA-256$")

    there = run(cli, ["roles", "list", "--json"])
    assert there.exit_code == 0
    assert [(row["granted"], row["unsafe"]) for row in json.loads(there.stdout)] == [(True, False)] * 5
    again = run(cli, ["roles", "grant"])
    assert (again.exit_code, again.stdout.startswith("Granted to")) == (0, True)


def test_the_command_takes_passwords_from_a_prompt(
    without_roles: servers.PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", without_roles.superuser_dsn)
    answers = "".join(f"{word}\n{word}\n" for word in ("one", "two", "three", "four", "five"))
    made = CliRunner().invoke(cli, ["roles", "create", "--prompt"], input=answers)
    assert made.exit_code == 0, made.output
    assert all(stored_password(without_roles.superuser_dsn, role) for role in roles.ROLES)


def test_a_password_on_the_command_line_is_wrong_usage() -> None:
    assert CliRunner().invoke(cli, ["roles", "create", "--password", "hunter2"]).exit_code == 2


def test_grants_without_a_schema_are_exit_code_5(bare: servers.PrivateServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DSN", bare.embedded.superuser_url("postgres"))
    refused = CliRunner().invoke(cli, ["roles", "grant"])
    assert refused.exit_code == 5
    assert "penstock migrate up" in refused.stderr


def test_a_migration_gives_the_roles_that_are_there_their_rights(bare: servers.PrivateServer) -> None:
    asyncio.run(roles.create_roles(bare.superuser_dsn))
    migrate.downgrade(bare.dsn, "base", of=migrate.lines())
    migrate.upgrade(bare.dsn, to=migrate.lines())
    assert all(role.granted for role in asyncio.run(roles.listed(bare.dsn)))


def _execute(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)


def _ask(dsn: str, question: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(question).fetchall()[0][0]


async def _logs_in(server: servers.PrivateServer, password: str) -> None:
    connection = await asyncpg.connect(server.role_dsn(roles.WORKER), password=password)
    await connection.close()


@pytest.mark.parametrize(
    "dsn",
    [
        "ceo:s3cret@127.0.0.1:5999/app",
        "postgresql://ceo:s3cret/more@127.0.0.1:5999/app",
        "postgresql:ceo:s3cret@h",
        "host=h user=x password=s3cret",
    ],
)
@pytest.mark.parametrize("command", ["create", "grant", "list"])
def test_an_admin_dsn_that_is_none_is_refused_by_its_own_name_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, command: str, dsn: str
) -> None:
    monkeypatch.delenv("PENSTOCK_DSN", raising=False)
    monkeypatch.setenv("PENSTOCK_ADMIN_DSN", dsn)
    said = CliRunner().invoke(cli, ["roles", command]).output
    assert "PENSTOCK_ADMIN_DSN is no URL such as postgresql://" in said
    assert "s3cret" not in said
