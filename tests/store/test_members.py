"""`penstock roles login`: a login of one's own in a role, with a password nobody saw and limits that fit the work."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from typer.testing import CliRunner, Result

from penstock import Penstock
from penstock.cli import cli
from penstock.store import logins, members, roles
from penstock.store.passwords import verifier
from tests.support import clusters

pytestmark = pytest.mark.contract("C-68", "R-24")
RoleDsn = Callable[[str], str]


@pytest.fixture
def name(database: clusters.Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A name for the login, which is dropped afterwards."""
    monkeypatch.setenv("PENSTOCK_DSN", database.dsn)
    monkeypatch.setenv("PENSTOCK_ADMIN_DSN", database.superuser_dsn)
    made = f"ann_{uuid4().hex[:12]}"
    yield made
    with psycopg.connect(database.superuser_dsn, autocommit=True) as admin:
        admin.execute(f'drop role if exists "{made}"')


def login(name: str, *options: str, **more: Any) -> Result:
    return CliRunner().invoke(cli, ["roles", "login", name, *options], **more)


def settings(dsn: str) -> dict[str, str]:
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    with psycopg.connect(dsn) as connection:
        return {name: connection.execute(f"show {name}").fetchall()[0][0] for name in names}


def about(dsn: str, name: str) -> tuple[Any, ...]:
    with psycopg.connect(dsn) as admin:
        return admin.execute(
            "select rolcanlogin, rolinherit, rolsuper or rolbypassrls or rolcreaterole or rolcreatedb"
            " or rolreplication, rolconnlimit, rolpassword from pg_authid where rolname = %s",
            [name],
        ).fetchall()[0]


@pytest.mark.parametrize("role", ["orchestrator", "worker", "frontend", "operator", "viewer"])
def test_a_login_of_every_role_is_bound_and_limited(
    role: str, name: str, superuser_dsn: str, role_dsn: RoleDsn
) -> None:
    done = login(name, "--role", role, "--json")
    assert done.exit_code == 0, done.output
    given = members.DEFAULTS[f"penstock_{role}"]
    assert about(superuser_dsn, name) == (True, True, False, given.connections, None)
    assert "0" not in settings(role_dsn(name)).values()
    asyncio.run(inherits(role_dsn(name), f"penstock_{role}"))


async def inherits(dsn: str, role: str) -> None:
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("select pg_has_role($1, 'usage')", role)
    await logins.refuse_unsafe(connection)
    await connection.close()


def test_the_limits_are_options_and_the_server_keeps_the_number_of_connections(name: str, role_dsn: RoleDsn) -> None:
    limits = ("--connections", "1", "--statement-timeout", "7", "--lock-timeout", "0.5", "--idle-timeout", "0")
    assert login(name, "--role", "operator", *limits).exit_code == 0
    assert settings(role_dsn(name)) == {
        "statement_timeout": "7s",
        "lock_timeout": "500ms",
        "idle_in_transaction_session_timeout": "0",
    }
    with (
        psycopg.connect(role_dsn(name)),
        pytest.raises(psycopg.OperationalError, match="too many connections"),
    ):
        psycopg.connect(role_dsn(name))


def declare(dsn: str, **timeouts: timedelta | None) -> None:
    """Types whose jobs may take so long."""
    app = Penstock(dsn)
    for job_type, timeout in timeouts.items():
        app.job(job_type, timeout=timeout)(_nothing)

    async def sync() -> None:
        async with app:
            await app.sync_types()

    asyncio.run(sync())


async def _nothing() -> None: ...


def test_an_idle_limit_below_the_longest_stage_is_refused_with_the_type(
    name: str, dsn: str, superuser_dsn: str
) -> None:
    declare(dsn, quick=timedelta(seconds=5), slow=timedelta(hours=2))
    refused = login(name, "--role", "worker", "--idle-timeout", "3600")
    assert refused.exit_code == 2
    assert "type 'slow' may take 7200 s" in refused.stderr
    with psycopg.connect(superuser_dsn) as admin:
        assert admin.execute("select from pg_roles where rolname = %s", [name]).fetchall() == []
    assert login(name, "--role", "worker", "--idle-timeout", "7200").exit_code == 0


def test_a_limit_that_nobody_asked_for_is_raised_and_said(name: str, dsn: str, role_dsn: RoleDsn) -> None:
    declare(dsn, quick=timedelta(seconds=5), slow=timedelta(hours=2))
    done = login(name, "--role", "worker")
    assert done.exit_code == 0, done.output
    assert "'slow'" in done.stdout
    assert settings(role_dsn(name))["idle_in_transaction_session_timeout"] == "2h"


def test_a_stage_without_a_limit_leaves_the_login_without_one(name: str, dsn: str, role_dsn: RoleDsn) -> None:
    declare(dsn, endless=None, slow=timedelta(hours=2))
    assert login(name, "--role", "worker", "--idle-timeout", "86400").exit_code == 2
    assert login(name, "--role", "worker").exit_code == 0
    assert settings(role_dsn(name))["idle_in_transaction_session_timeout"] == "0"


def test_stages_concern_workers_only(name: str, dsn: str) -> None:
    declare(dsn, slow=timedelta(hours=2))
    assert login(name, "--role", "orchestrator", "--idle-timeout", "60").exit_code == 0


def test_a_generated_password_is_shown_once_and_kept_as_a_verifier(name: str, superuser_dsn: str) -> None:
    done = login(name, "--role", "viewer", "--generate", "--json")
    assert done.exit_code == 0, done.output
    password = json.loads(done.stdout)["password"]
    kept = about(superuser_dsn, name)[-1]
    assert len(password) >= 32
    assert password not in kept
    assert kept == verifier(password, salt=_salt(kept))


def test_a_password_comes_from_the_environment_or_a_prompt_and_is_not_repeated(
    name: str, superuser_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = login(name, "--role", "viewer", "--prompt", input="hunter2\nhunter2\n")
    assert asked.exit_code == 0, asked.output
    assert "hunter2" not in asked.output
    kept = about(superuser_dsn, name)[-1]
    assert kept == verifier("hunter2", salt=_salt(kept))

    monkeypatch.setenv("PENSTOCK_LOGIN_PASSWORD", "no text \udc80")
    assert login(f"{name}x", "--role", "viewer").exit_code == 2
    monkeypatch.setenv("PENSTOCK_LOGIN_PASSWORD", "hunter3")
    again = login(name, "--role", "viewer")
    assert again.exit_code == 1
    assert f"here is a role '{name}' already" in again.stderr
    assert about(superuser_dsn, name)[-1] == kept


def _salt(kept: str) -> bytes:
    return base64.b64decode(kept.split("$")[1].split(":")[1])


@pytest.mark.parametrize("bad", ["pg_me", "penstock_worker", "public", "x" * 64])
def test_a_name_that_is_no_logins_own_is_refused(bad: str, name: str) -> None:
    assert name
    assert login(bad, "--role", "worker").exit_code == 2


def test_a_strange_name_is_quoted(superuser_dsn: str, name: str) -> None:
    strange = 'ann"; drop role penstock_viewer; --'
    assert name
    try:
        assert login(strange, "--role", "viewer").exit_code == 0
        assert about(superuser_dsn, strange)[0] is True
        assert about(superuser_dsn, roles.VIEWER)[0] is True
    finally:
        with psycopg.connect(superuser_dsn, autocommit=True) as admin:
            admin.execute('drop role if exists "ann""; drop role penstock_viewer; --"')


def test_a_role_that_is_none_of_ours_is_wrong_usage(name: str) -> None:
    assert login(name, "--role", "postgres").exit_code == 2


def test_a_login_without_createrole_learns_what_it_takes(name: str, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ADMIN_DSN", dsn)
    refused = login(name, "--role", "worker")
    assert refused.exit_code == 1
    assert "CREATEROLE" in refused.stderr
