"""Keys of other types, and locks that another login would like to hold."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from penstock.embedded import EmbeddedServer
from penstock.store import migrate
from tests.support import clusters
from tests.walls.conftest import FRONTEND, OPERATOR, ORCHESTRATOR, VIEWER, WORKER, Town


@pytest.mark.contract("C-68", "A-35")
@pytest.mark.parametrize("role", [ORCHESTRATOR, WORKER])
def test_a_caller_cannot_take_the_key_of_another_type(role: str, town: Town) -> None:
    caller = town.login(role)
    put = "select (penstock.put_job('open', '{}', %s, null, null, null, null, null, false, null))[4]"
    ids, rest = "array[gen_random_uuid()]", "null, null, null, null, false"
    many = f"select penstock.put_jobs('open', {ids}, array['{{}}'], array[%s], {rest})"
    for key in ("wall:1", "open", "1", "", "openx:1"):
        assert caller.execute(put, [key]).fetchone() == ("PS013",)
        with pytest.raises(psycopg.Error) as refused:
            caller.execute(many, [key])
        assert refused.value.sqlstate == "PS013"
    assert caller.execute(put, ["open:1"]).fetchone() == (None,)
    caller.execute(many, ["open:2"])
    assert town.one("select count(*) from penstock.jobs where idempotency_key in ('open:1', 'open:2')") == 2


@pytest.mark.contract("C-68", "A-39")
def test_a_lock_is_salted_with_what_a_frontend_cannot_read(town: Town) -> None:
    for role in (FRONTEND, VIEWER):
        assert town.refusal(role, "select penstock.lock_key('x')") == "42501"
        assert town.refusal(role, "select salt from penstock.lock_salt") == "42501"
    known = {town.login(role).execute("select penstock.lock_key('x')").fetchone() for role in (WORKER, ORCHESTRATOR)}
    assert known == {(town.one("select penstock.lock_key('x')"),)}, "those who lock the same thing meet"
    guesses = town.one(
        "select array[hashtextextended('x', 0), hashtextextended(':x', 0), hashtext('x')::bigint, "
        "hashtextextended('x', 1)]"
    )
    assert town.one("select penstock.lock_key('x')") not in guesses
    assert town.one("select length(salt) from penstock.lock_salt") == 64
    assert town.refusal(OPERATOR, "select salt from penstock.lock_salt") == "42501"


def test_two_databases_have_two_salts(
    town: Town, shared_server: EmbeddedServer, admin: psycopg.Connection[Any]
) -> None:
    name = "test_salted_apart"
    admin.execute(f"drop database if exists {name}")
    admin.execute(f"create database {name} owner penstock")
    other = clusters.Database(name, shared_server)
    try:
        clusters.migrate_template(other.dsn, [migrate.ENGINE])
        with psycopg.connect(other.dsn) as connection:
            row = connection.execute("select penstock.lock_key('x')").fetchone()
            assert row is not None
            assert row[0] != town.one("select penstock.lock_key('x')")
    finally:
        clusters.drop(other, admin)


@pytest.mark.contract("C-68")
def test_a_migration_waits_for_no_lock_that_another_login_can_hold(
    town: Town, role_dsn: Callable[[str], str], dsn: str
) -> None:
    frontend = town.login(FRONTEND)
    frontend.execute("select pg_advisory_lock(hashtext('penstock.migrate'))")
    with frontend.transaction():
        frontend.execute("select * from penstock.schema_version")  # as much of a table lock as it can get
        assert town.refusal(FRONTEND, "lock table penstock.schema_version in row share mode") == "42501"
        with ThreadPoolExecutor(1) as pool:
            pool.submit(migrate.upgrade, dsn, lock_timeout=2.0).result(timeout=30)
