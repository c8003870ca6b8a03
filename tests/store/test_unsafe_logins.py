"""Logins that grants and row-level security do not bind, themselves or through a role: refused by all who run code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from uuid import uuid4

import asyncpg
import psycopg
import pytest

from penstock import Penstock
from penstock.contract.claims import Trigger
from penstock.contract.errors import UnsafeLogin
from penstock.settings import load_settings
from penstock.store import logins, roles
from penstock.store.api_keys import Scope
from penstock.web.logins import Logins

pytestmark = pytest.mark.contract("C-68", "R-24")
RoleDsn = Callable[[str], str]

# How the login came to its power, with {me} for its name and {boss} for a role beside it; and a word of the refusal.
WAYS = {
    "superuser": (["alter role {me} superuser"], "a superuser"),
    "bypassrls": (["alter role {me} bypassrls"], "BYPASSRLS"),
    "replication": (["alter role {me} replication"], "REPLICATION"),
    "member of a superuser": (["alter role {boss} superuser", "grant {boss} to {me}"], "a superuser"),
    "member of a member": (
        ["alter role {boss} superuser", "grant {boss} to {between}", "grant {between} to {me}"],
        "a superuser",
    ),
    "member that does not inherit": (
        ["alter role {boss} superuser", "grant {boss} to {me}", "alter role {me} noinherit"],
        "a superuser",
    ),
    "member that begins as another": (
        ["alter role {boss} superuser", "grant {boss} to {me}", "alter role {me} set role penstock_worker"],
        "a superuser",
    ),
    "member of bypassrls": (["alter role {boss} bypassrls", "grant {boss} to {me}"], "BYPASSRLS"),
    "member of the owner": (["grant penstock to {me}"], "the owner of the schema"),
    **{name: ([f"grant {name} to {{me}}"], f"'{name}'") for name in logins.BOUNDLESS},
}


@pytest.fixture
def superuser(superuser_dsn: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(superuser_dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def names(superuser: psycopg.Connection[tuple[object, ...]]) -> Iterator[dict[str, str]]:
    """A login that is a member of penstock_worker, and two roles beside it."""
    made = {who: f"{who}_{uuid4().hex[:12]}" for who in ("me", "boss", "between")}
    superuser.execute(f"create role {made['me']} login in role {roles.WORKER}")
    superuser.execute(f"create role {made['boss']}; create role {made['between']}")
    yield made
    for name in made.values():
        superuser.execute(f"drop role {name}")


async def look(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await logins.refuse_unsafe(connection)
    finally:
        await connection.close()


@pytest.mark.parametrize("way", WAYS)
async def test_a_login_that_no_rule_binds_is_refused_however_it_came_by_that(
    way: str, names: dict[str, str], superuser: psycopg.Connection[tuple[object, ...]], role_dsn: RoleDsn
) -> None:
    await look(role_dsn(names["me"]))
    statements, words = WAYS[way]
    for statement in statements:
        superuser.execute(statement.format(**names))
    with pytest.raises(UnsafeLogin, match=f"'{names['me']}' is .*{words}.*penstock_worker.*--insecure"):
        await look(role_dsn(names["me"]))


async def test_an_owner_of_a_table_alone_is_refused(
    names: dict[str, str], superuser: psycopg.Connection[tuple[object, ...]], role_dsn: RoleDsn
) -> None:
    superuser.execute("create table penstock.theirs ()")
    superuser.execute(f"alter table penstock.theirs owner to {names['me']}")
    with pytest.raises(UnsafeLogin, match="the owner of the schema"):
        await look(role_dsn(names["me"]))
    superuser.execute("drop table penstock.theirs")


@pytest.mark.parametrize("role", roles.ROLES)
async def test_our_own_roles_are_not_refused(role: str, role_dsn: RoleDsn) -> None:
    await look(role_dsn(role))


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[Penstock]:
    """An application on the owner's login."""
    made = Penstock(dsn)

    @made.job("plain")
    async def plain() -> None: ...

    @made.function("sweep")
    async def sweep() -> None: ...

    async with made:
        yield made


async def _work(app: Penstock) -> None:
    await app.worker(["plain"]).run()


async def _run(app: Penstock) -> None:
    await app.run_function("sweep", trigger=Trigger.SCHEDULE)


async def _schedule(app: Penstock) -> None:
    await app.scheduler().run()


async def _serve(app: Penstock) -> None:
    async with Logins({Scope.FRONTEND: await app.dsn()}, prepared=load_settings().prepared_statements):
        pass


@pytest.mark.parametrize("begin", [_work, _run, _schedule, _serve])
async def test_whoever_runs_code_or_answers_others_refuses_the_owner(
    begin: Callable[[Penstock], Awaitable[None]], app: Penstock
) -> None:
    with pytest.raises(UnsafeLogin, match="'penstock' is the owner of the schema"):
        async with asyncio.timeout(10):  # one that is not refused works for ever
            await begin(app)
    assert await app.pool.fetchval("select count(*) from penstock.workers") == 0


async def test_what_is_accepted_knowingly_runs(app: Penstock) -> None:
    done = await app.run_function("sweep", trigger=Trigger.SCHEDULE, insecure=True)
    assert done.error is None
