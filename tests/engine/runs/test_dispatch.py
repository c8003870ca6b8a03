"""The dispatcher counts before it starts anything, and only those who may start a run can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
import structlog

from penstock import Penstock
from penstock.contract.claims import Trigger
from penstock.contract.contract_types import enrichment
from penstock.contract.errors import RunRefused, UnknownType
from penstock.engine.bounded import BoundedRun
from penstock.engine.functions import RunHandle
from penstock.engine.registry import JobType
from penstock.store import runs as run_store
from tests.engine.runs.conftest import FUNCTION, Build, Press


@pytest.mark.contract("Q-49")
async def test_the_count_comes_before_every_start(press: Press, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    count, work = run_store.pending, BoundedRun.work

    async def counted(*args: Any) -> Any:
        steps.append("count")
        return await count(*args)

    async def worked(run: BoundedRun) -> None:
        steps.append("start")
        await work(run)
        steps.append("end")

    monkeypatch.setattr(run_store, "pending", counted)
    monkeypatch.setattr(BoundedRun, "work", worked)

    await press.run()
    assert steps == ["count"], "with nothing pending nothing is started"
    await press.fill(1)
    await press.run()
    assert steps[1:4] == ["count", "start", "end"]


@pytest.mark.contract("Q-50", "Q-82", "C-55")
async def test_with_nothing_pending_the_skip_is_recorded_and_logged_in_plain_words(press: Press) -> None:
    with structlog.testing.capture_logs() as lines:
        dispatched = await press.run()

    assert dispatched.skipped
    assert await press.records() == []
    skips = await press.owner.fetch("select function, reason from penstock.skips")
    assert [tuple(row) for row in skips] == [(FUNCTION, "no pending items")]
    told = [(line["log_level"], line["event"]) for line in lines]
    assert told == [("info", "rewrite_batch_submitter skipped: no pending items")]


@pytest.mark.contract("Q-50")
async def test_jobs_that_are_not_due_do_not_start_a_run(press: Press) -> None:
    await press.fill(3, delay=timedelta(minutes=5))
    assert (await press.run()).skipped

    await press.pass_time(minutes=5)
    assert (await press.ran()).claimed == 3


@pytest.mark.contract("C-23")
async def test_enqueueing_a_scheduled_type_wakes_nobody(press: Press) -> None:
    heard: list[str] = []
    listening = await asyncpg.connect(press.dsn)
    await listening.add_listener("penstock_jobs", lambda *args: heard.append(str(args[-1])))

    await press.fill(2)
    await listening.execute("select penstock.enqueue('complaint_rewrite', '{\"n\": 9}')")
    await press.app.pool.execute("select pg_notify('penstock_jobs', 'last')")
    async with asyncio.timeout(10):
        while "last" not in heard:
            await listening.execute("select 1")
    await listening.close()

    assert heard == ["last"]


@pytest.mark.contract("C-23", "Q-48")
async def test_a_worker_of_other_types_never_touches_a_scheduled_type(press: Press) -> None:
    other = press.app.types.add(JobType(enrichment()))
    done = asyncio.Event()

    async def enrich() -> None:
        done.set()

    other.stage("enrich")(enrich)
    (job,) = await press.fill(1)
    worker = press.app.worker(name="notified", insecure=True)
    task = asyncio.create_task(worker.run())
    async with asyncio.timeout(15):
        await worker.ready.wait()
        await press.app.pool.execute("select penstock.poke('penstock_jobs', 'complaint_rewrite')")
        await press.app.enqueue("enrichment", {})
        await done.wait()
        await worker.settle()
    worker.stop()
    await task

    assert (await press.job(job))["claim_seq"] == 0


@pytest.mark.contract("Q-47", "C-57")
async def test_an_admin_starts_a_run_by_hand(press: Press) -> None:
    await press.fill(1)

    run = await press.ran(Trigger.ADMIN)

    assert (run.trigger, run.succeeded) == ("admin", 1)


@pytest.mark.contract("Q-47", "Q-48")
@pytest.mark.parametrize("role", ["penstock_frontend", "penstock_orchestrator", "penstock_operator"])
@pytest.mark.parametrize("trigger", [Trigger.SCHEDULE, Trigger.ADMIN])
async def test_a_login_that_may_not_work_is_refused(
    press: Press, role_dsn: Callable[[str], str], role: str, trigger: Trigger
) -> None:
    await press.fill(1)

    with pytest.raises(RunRefused, match="may not start a run"):
        await press.run(trigger, dsn=role_dsn(role))

    assert await press.statuses() == {"queued": 1}
    assert await press.records() == []


@pytest.mark.contract("Q-47")
async def test_a_worker_may_run_on_a_timer_but_not_by_hand(press: Press, role_dsn: Callable[[str], str]) -> None:
    await press.fill(1)
    worker = role_dsn("penstock_worker")

    with pytest.raises(RunRefused, match="by hand"):
        await press.run(Trigger.ADMIN, dsn=worker)
    assert (await press.ran(Trigger.SCHEDULE, dsn=worker)).succeeded == 1


@pytest.mark.contract("Q-48")
async def test_no_grant_of_the_frontend_reaches_anything_that_starts_work(
    press: Press, role_dsn: Callable[[str], str]
) -> None:
    tables = await press.owner.fetch(
        "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname = 'penstock' and c.relkind in ('r', 'v') and c.relname not in ('clock', 'schema_version') "
        "and (has_table_privilege('penstock_frontend', c.oid, 'insert, update, delete, truncate')"
        " or has_any_column_privilege('penstock_frontend', c.oid, 'insert, update'))"
    )
    functions = await press.owner.fetch(
        "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname = 'penstock' and p.provolatile = 'v' and p.proname not in ('uuid7', 'check_key') "
        "and has_function_privilege('penstock_frontend', p.oid, 'execute')"
    )
    assert (tables, functions) == ([], [])

    frontend = await asyncpg.connect(role_dsn("penstock_frontend"))
    try:
        for statement in (
            "update penstock.schedules set requested_at = now(), requested_by = 'me'",
            "insert into penstock.schedules (schedule, function, every, next_due_at) values ('x', 'y', '1 h', now())",
            "update penstock.jobs set status = 'processing'",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await frontend.execute(statement)
    finally:
        await frontend.close()


async def test_a_login_that_no_rule_binds_is_refused(press: Press, superuser_dsn: str) -> None:
    await press.fill(1)

    with pytest.raises(Exception, match="superuser"):
        await press.run(dsn=superuser_dsn, insecure=False)

    assert await press.statuses() == {"queued": 1}


async def test_code_of_its_own_is_counted_bounded_and_recorded(press: Press) -> None:
    rooms: list[int] = []

    @press.app.function("sweep", max_jobs=3, max_runtime=timedelta(seconds=30))
    async def sweep(run: RunHandle) -> None:
        while run.room:
            rooms.append(run.room)
            run.count(claimed=1, succeeded=1)
        run.count_call("google", "flash")
        run.count_error("RATE_LIMITED", rate_limited=True)

    dispatched = await press.app.run_function("sweep", insecure=True)

    assert rooms == [3, 2, 1]
    assert dispatched.error is None
    (record,) = await press.records()
    assert (record["function"], record["claimed_count"], record["succeeded_count"]) == ("sweep", 3, 3)
    assert (record["max_jobs_per_run"], record["rate_limited_count"]) == (3, 1)


async def test_code_that_raises_ends_its_run_with_a_class_and_an_alert(press: Press) -> None:
    @press.app.function("broken")
    def broken() -> None:
        raise KeyError("secret text of a user")

    dispatched = await press.app.run_function("broken", insecure=True)

    assert dispatched.error == "RUNTIME_BUG"
    (record,) = await press.records()
    assert (record["by_error"], record["finished_at"] is not None) == ('{"RUNTIME_BUG": 1}', True)
    alerts = await press.owner.fetch("select kind, severity, subject from penstock.alerts")
    assert [tuple(row) for row in alerts] == [
        ("function_failed", "alert", '{"code": "RUNTIME_BUG", "function": "broken"}')
    ]


async def test_code_that_hangs_is_stopped_at_its_limit(press: Press) -> None:
    @press.app.function("hung", timeout=timedelta(milliseconds=50))
    async def hung() -> None:
        await asyncio.Event().wait()

    assert (await press.app.run_function("hung", insecure=True)).error == "HANDLER_TIMEOUT"


async def test_a_job_that_an_operator_cancels_is_stopped_in_its_run(press: Press) -> None:
    async def until_canceled(job: Any, _args: dict[str, Any]) -> None:
        await press.owner.execute("select penstock.cancel($1, 'operator', 'wrong one')", job.job_id)
        await asyncio.Event().wait()

    press.provider.answer = until_canceled
    await press.fill(1)

    async with asyncio.timeout(15):
        run = await press.ran()

    assert await press.statuses() == {"canceled": 1}
    assert run.succeeded == 0


async def test_a_scheduled_type_without_a_declared_function_has_one_of_its_own_name(build: Build, dsn: str) -> None:
    await build()
    app = Penstock(dsn, profile="dev")

    @app.job("digest", dispatch="scheduled", drain_cap=2)
    async def digest() -> None: ...

    async with app:
        await app.enqueue_many("digest", [{}] * 3)
        dispatched = await app.run_function("digest", insecure=True)

    assert dispatched.run is not None
    assert dispatched.run.claimed == 2
    assert app.functions.get("digest").cadence is not None
    assert str(app.functions.get("digest").cadence) == "every 2:00:00"


async def test_the_type_of_a_function_must_be_known(press: Press) -> None:
    press.app.job_function("odd", "no_such_type")

    with pytest.raises(UnknownType, match="no_such_type"):
        await press.app.run_function("odd", insecure=True)
