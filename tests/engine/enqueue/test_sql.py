"""`select penstock.enqueue(...)`: psql, triggers and other languages get what Python gets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.contract.errors import EnqueueRefused, UnknownType
from tests.engine.enqueue.conftest import Office, declare_types

NOOP = ("penstock_jobs", '{"job_type": "noop"}')


@pytest.mark.contract("Q-29", "C-18", "Q-43", "D-25")
async def test_a_sql_caller_gets_the_same_job_as_a_python_caller(office: Office) -> None:
    by_sql = await office.owner.fetchval(
        "select penstock.enqueue('noop', '{\"n\": 1}', "
        "key => 'sql', delay => '1 hour', priority => 4, limit_key => 'h')"
    )
    by_python = await office.app.enqueue(
        "noop", {"n": 1}, key="python", delay=timedelta(hours=1), priority=4, limit_key="h"
    )

    rows = [dict(await office.job(job_id)) for job_id in (by_sql, by_python)]
    for row in rows:
        assert row.pop("run_at") - row.pop("created_at") == timedelta(hours=1)
        for different in ("job_id", "updated_at", "idempotency_key"):
            row.pop(different)
    assert rows[0] == rows[1]
    assert rows[0]["attempt_count"] == 0
    assert by_sql.version == by_python.version == 7


@pytest.mark.contract("C-65")
async def test_both_faces_answer_for_each_others_keys(office: Office) -> None:
    by_python = await office.app.enqueue("noop", {"n": 1}, key="k")

    assert await office.owner.fetchval("select penstock.enqueue('noop', '{\"n\": 1}', 'k')") == by_python
    with pytest.raises(asyncpg.PostgresError) as caught:
        await office.owner.execute("select penstock.enqueue('noop', '{\"n\": 2}', 'k')")
    assert caught.value.sqlstate == "PS011"
    assert caught.value.hint


@pytest.mark.contract("C-27", "D-33")
async def test_a_trigger_enqueues_and_the_commit_pokes_once(office: Office) -> None:
    await office.owner.execute("""
        create table items (item_id integer primary key);
        create function enrich() returns trigger language plpgsql as $$
        begin
            perform penstock.enqueue('noop', jsonb_build_object('item_id', new.item_id), key => 'item-' || new.item_id);
            return null;
        end $$;
        create trigger enrich after insert on items for each row execute function enrich()""")

    async with office.owner.transaction():
        await office.owner.execute("insert into items select generate_series(1, 5)")
    assert await office.ear.all() == [NOOP]
    assert await office.count() == 5

    rolled_back = office.owner.transaction()
    await rolled_back.start()
    await office.owner.execute("insert into items values (6)")
    await rolled_back.rollback()
    assert await office.ear.all() == []
    assert await office.count() == 5


@pytest.mark.contract("D-71")
async def test_a_setting_of_the_session_leaves_the_poke_out(office: Office) -> None:
    await office.owner.execute("set penstock.notify = off")
    await office.owner.execute("select penstock.enqueue('noop')")
    assert await office.ear.all() == []
    await office.owner.execute("reset penstock.notify")
    await office.owner.execute("select penstock.enqueue('noop')")
    assert await office.ear.all() == [NOOP]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("'nowhere'", "PS010"),
        ("null", "PS010"),
        ("'noop', to_jsonb(repeat('x', 300000))", "PS012"),
        ("'noop', key => ''", "22023"),
        ("'noop', key => repeat('x', 401)", "22023"),
        ("'noop', limit_key => ''", "22023"),
        ("'noop', limit_key => repeat('x', 401)", "22023"),
        ("'noop', priority => 32768", "22023"),
        ("'noop', priority => -40000", "22023"),
        ("'noop', delay => '-1 second'", "22023"),
        ("'noop', delay => '11 years'", "22023"),
        ("'noop', run_at => now() + interval '11 years'", "22023"),
        ("'noop', run_at => 'infinity'", "22023"),
        ("'noop', run_at => now(), delay => '1 second'", "22023"),
    ],
)
async def test_a_wrong_job_is_refused_in_sql_too(office: Office, call: str, code: str) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await office.owner.execute(f"select penstock.enqueue({call})")

    assert caught.value.sqlstate == code
    assert await office.count() == 0


async def test_the_orchestrator_enqueues_and_may_do_nothing_else(
    office: Office, role_dsn: Callable[[str], str]
) -> None:
    async with declare_types(Penstock(role_dsn("penstock_orchestrator"))) as app:
        job_id = await app.enqueue("noop", {"n": 1}, key="k")
        assert await app.enqueue("noop", {"n": 1}, key="k") == job_id
        assert len(await app.enqueue_many("noop", [{"n": 1}, {"n": 2}], keys=[None, "k2"])) == 2
        async with app.transaction() as tx:
            await tx.execute("select penstock.enqueue('noop', '{\"n\": 3}')")

        @app.job("undeclared")
        async def undeclared(args: dict[str, Any]) -> None: ...

        with pytest.raises(UnknownType):
            await app.enqueue("undeclared", {})
        for statement in ("delete from penstock.jobs", "update penstock.jobs set priority = 1"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await app.pool.execute(statement)
    assert await office.count() == 4


async def test_a_role_that_may_only_watch_cannot_enqueue(office: Office, role_dsn: Callable[[str], str]) -> None:
    async with declare_types(Penstock(role_dsn("penstock_frontend"))) as app:
        with pytest.raises(EnqueueRefused, match="penstock_orchestrator"):
            await app.enqueue("noop", {"n": 1})
    assert await office.count() == 0
