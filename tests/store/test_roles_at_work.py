"""The four roles at their work, logged in as themselves: what each can do, and what it is refused."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from penstock import Audit, Dispatch, Failed, FailureClass, Found, Job, Limits, Penstock, Rate, Schedule
from penstock.contract.errors import EnqueueRefused, UnsafeLogin
from penstock.engine import replay
from penstock.store import alerts, claims, jobs, roles
from penstock.store import types as type_store
from penstock.testing import Harness

RoleDsn = Callable[[str], str]
DENIED = asyncpg.InsufficientPrivilegeError


@pytest.fixture
async def h(dsn: str, role_dsn: RoleDsn) -> AsyncIterator[Harness]:
    """An application with one of everything; its worker is logged in as penstock_worker."""
    app = Penstock(dsn)

    @app.job("plain", audit=Audit.FULL)
    async def plain(job: Job) -> None:
        async with job.transaction() as tx:
            await tx.execute("select 1")

    @app.job("fails", attempts=2, backoff=Schedule([60]), audit=Audit.FULL)
    async def fails() -> None:
        raise Failed(FailureClass.NETWORK_TIMEOUT)

    @app.job("denied", attempts=1)
    async def denied() -> None:
        raise Failed(FailureClass.AUTH_DENIED)

    staged = app.type("staged", stages=("fetch", "tell"))

    @staged.stage("fetch")
    async def fetch() -> dict[str, Any]:
        return {"n": 1}

    @staged.stage("tell")
    async def tell(job: Job) -> None:
        async def perform(token: str) -> dict[str, Any]:
            return {"sent": token}

        async def settle(token: str) -> Found:
            return Found({"sent": token})

        await job.effect("mail", perform=perform, settle=settle)

    @app.job("limited", limits=Limits(running=2, rate=Rate(100, timedelta(minutes=1)), key_running=1))
    async def limited() -> None: ...

    @app.job("nightly", dispatch=Dispatch.SCHEDULED)
    async def nightly() -> None: ...

    async with Harness(app) as harness:
        await harness.worker(dsn=role_dsn(roles.WORKER), insecure=False)
        yield harness


async def login(role_dsn: RoleDsn, role: str) -> "asyncpg.Connection[Any]":
    return await asyncpg.connect(role_dsn(role))


async def test_a_worker_does_all_its_work_as_penstock_worker(h: Harness) -> None:
    done = [await h.enqueue(name) for name in ("plain", "staged", "nightly")]
    done += [await h.enqueue("limited", limit_key=key) for key in ("a", "b")]
    failing, denied = await h.enqueue("fails"), await h.enqueue("denied")
    await h.work_until_idle()
    assert [await h.status(job_id) for job_id in done] == ["completed"] * len(done)
    assert await h.status(failing) == await h.status(denied) == "failed"
    assert {letter["job_id"] for letter in await h.dead_letters()} == {failing, denied}
    assert len(await h.events(failing)) > 4


async def test_a_worker_returns_the_claims_of_a_dead_one_as_penstock_worker(h: Harness) -> None:
    job_id = await h.enqueue("plain")
    await h.app.pool.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'gone', "
        "claimed_at = penstock.now(), lease_expires_at = penstock.now() + interval '1 minute'"
    )
    await h.pass_time(minutes=2)
    await h.drain()
    assert await h.status(job_id) == "completed"


async def test_a_whole_worker_listens_and_beats_as_penstock_worker(h: Harness, role_dsn: RoleDsn) -> None:
    done = asyncio.Event()

    @h.app.job("ping")
    async def ping() -> None:
        done.set()

    async with h.running("whole", types=["ping"], dsn=role_dsn(roles.WORKER)):
        await h.enqueue("ping")
        async with asyncio.timeout(20):
            await done.wait()
    row = await h.app.pool.fetchrow("select * from penstock.workers where worker_id = 'whole'")
    assert row is not None
    assert row["stopped_at"] is not None


async def test_a_worker_may_not_change_what_a_job_is(h: Harness, role_dsn: RoleDsn) -> None:
    await h.enqueue("plain", {"n": 1})
    worker = await login(role_dsn, roles.WORKER)
    for change in ("payload = '{}'", "job_type = 'other'", "max_attempts = 99", "priority = -9", "audited = false"):
        with pytest.raises(DENIED):
            await worker.execute(f"update penstock.jobs set {change}")
    for statement in (
        "insert into penstock.jobs (job_id) values (gen_random_uuid())",
        "delete from penstock.jobs",
        "delete from penstock.job_events",
        "update penstock.job_events set to_status = 'completed'",
        "insert into penstock.job_events (job_id) values (gen_random_uuid())",
    ):
        with pytest.raises(DENIED):
            await worker.execute(statement)
    await worker.execute("update penstock.jobs set updated_at = penstock.now()")
    await worker.close()


async def test_an_orchestrator_can_enqueue_and_nothing_else(h: Harness, role_dsn: RoleDsn) -> None:
    async with Penstock(role_dsn(roles.ORCHESTRATOR)) as producer:
        one = await producer.enqueue("plain", {"n": 1}, key="k", delay=timedelta(minutes=1))
        assert await producer.enqueue("plain", {"n": 1}, key="k", delay=timedelta(minutes=1)) == one
        many = await producer.enqueue_many("plain", [{"n": n} for n in range(3)])
        by_sql = await producer.pool.fetchval("select penstock.enqueue('plain', '{\"n\": 9}')")
        assert [await h.status(job_id) for job_id in (one, *many, by_sql)] == ["queued"] * 5
        for refused in (
            producer.pool.fetch("select payload from penstock.jobs"),
            claims.promote(producer.pool, ["plain"]),
            claims.reap(producer.pool),
            jobs.cancel(producer.pool, one, who="x", why=None),
            type_store.pause(producer.pool, "plain", who="x", why=None),
            producer.pool.execute("insert into penstock.jobs (job_id) values (gen_random_uuid())"),
            producer.pool.fetch("select * from penstock.dead_letters"),
        ):
            with pytest.raises(DENIED):
                await refused


async def test_a_type_may_name_the_role_that_enqueues_it(dsn: str, role_dsn: RoleDsn) -> None:
    app = Penstock(dsn)

    @app.job("guarded", enqueue_role=roles.ORCHESTRATOR)
    async def guarded() -> None: ...

    async with Harness(app) as h:
        async with Penstock(role_dsn(roles.WORKER)) as worker:
            with pytest.raises(EnqueueRefused, match="may not enqueue 'guarded'"):
                await worker.enqueue("guarded", {"n": 1})
            with pytest.raises(EnqueueRefused):
                await worker.enqueue_many("guarded", [{"n": 1}])
            with pytest.raises(DENIED):
                await worker.pool.fetchval("select penstock.enqueue('guarded')")
        await h.enqueued("guarded", count=0)
        async with Penstock(role_dsn(roles.ORCHESTRATOR)) as orchestrator:
            await orchestrator.enqueue("guarded", {"n": 1})
        await h.enqueued("guarded", count=1)


async def test_an_operator_cancels_replays_and_moves_gates_but_cannot_claim(h: Harness, role_dsn: RoleDsn) -> None:
    waiting, failed = await h.enqueue("plain", delay=timedelta(days=1)), await h.enqueue("denied")
    await h.drain()
    operator = await login(role_dsn, roles.OPERATOR)

    assert await jobs.cancel(operator, waiting, who="ann", why="not needed") == "canceled"
    again = await replay.retry(operator, failed, operator="ann")
    assert (await h.job(again))["replay_of_job_id"] == failed
    await type_store.pause(operator, "plain", who="ann", why="release")
    await type_store.resume(operator, "plain")
    await type_store.set_limits(operator, "plain", Limits(running=3))
    alert_id = await alerts.raise_alert(operator, "test", alerts.Severity.INFO, {})
    assert await alerts.acknowledge(operator, alert_id, who="ann")

    ready = await h.enqueue("limited")
    for refused in (
        claims.take_gated(operator, "limited", timedelta(minutes=1), limit=1, worker="x", run=again),
        claims.promote(operator, ["plain"]),
        claims.reap(operator),
        operator.execute("update penstock.jobs set status = 'processing', claim_seq = claim_seq + 1"),
        operator.execute("insert into penstock.jobs (job_id, job_type) values (gen_random_uuid(), 'plain')"),
        operator.fetch("select payload from penstock.jobs"),
        operator.execute("update penstock.dead_letters set error_class = 'OTHER'"),
        operator.execute("update penstock.job_events set code = null"),
        operator.execute("delete from penstock.dead_letters"),
        operator.fetchval("select penstock.enqueue('plain')"),
    ):
        with pytest.raises(DENIED):
            await refused
    assert await h.status(ready) == "queued"
    await operator.close()


async def test_a_frontend_sees_nothing_of_the_engine(h: Harness, role_dsn: RoleDsn) -> None:
    await h.enqueue("plain")
    frontend = await login(role_dsn, roles.FRONTEND)
    tables = await h.app.pool.fetch(
        "select relname::text as name from pg_class "
        "where relnamespace = 'penstock'::regnamespace and relkind in ('r', 'v')"
    )
    for row in tables:
        if row["name"] in ("clock", "schema_version"):
            continue
        with pytest.raises(DENIED):
            await frontend.fetch(f"select 1 from penstock.{row['name']}")
    assert await frontend.fetchval("select penstock.now() is not null")
    await frontend.close()


@pytest.mark.parametrize("option", ["superuser", "bypassrls"])
async def test_a_worker_refuses_a_login_that_no_rule_binds(
    option: str, h: Harness, superuser_dsn: str, role_dsn: RoleDsn
) -> None:
    admin = await asyncpg.connect(superuser_dsn)
    role = f"unbound_{uuid4().hex}"
    await admin.execute(f"create role {role} login {option} in role {roles.WORKER}")
    try:
        worker = h.app.worker(["plain"], name="unbound", dsn=role_dsn(role))
        with pytest.raises(UnsafeLogin, match=f"'{role}' is .*penstock_worker.*--insecure"):
            await worker.run()
        assert await h.app.pool.fetchval("select count(*) from penstock.workers where worker_id = 'unbound'") == 0
        async with h.running("accepted", types=["plain"], dsn=role_dsn(role)):
            assert await h.app.pool.fetchval("select count(*) from penstock.workers where worker_id = 'accepted'") == 1
    finally:
        await admin.execute(f"drop role {role}")
        await admin.close()
