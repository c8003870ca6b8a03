"""Transactions of others that hold a row, and triggers that wait or raise so: what they hold up, and what goes on."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from penstock import Limits
from penstock.engine import recorder
from penstock.store import claims as store

if TYPE_CHECKING:
    from tests.engine.worker.conftest import Floor

LEASE = timedelta(seconds=0.9)
HOOK = """
create function public.hook() returns trigger language plpgsql as $hook$
begin
    {body}
    return new;
end $hook$;
create trigger hook before update on penstock.jobs for each row
    when (old.job_type = 'bad' and old.status = 'processing' and new.status <> old.status)
    execute function public.hook();
"""


async def hang(floor: Floor, count: int) -> tuple[list[Any], asyncio.Event]:
    """Jobs that run until they are told to end; returns them, and what tells them."""
    release = asyncio.Event()
    entered: asyncio.Queue[int] = asyncio.Queue()

    @floor.app.job("slow", lease=LEASE)
    async def slow(job: Any, args: Any) -> None:
        entered.put_nowait(args["n"])
        await release.wait()

    ids = await floor.app.enqueue_many("slow", [{"n": n} for n in range(count)])
    return ids, release


@pytest.mark.contract("C-20", "C-31")
async def test_a_row_that_somebody_holds_costs_no_other_lease(floor: Floor, dsn: str) -> None:
    ids, release = await hang(floor, 5)
    other = await asyncpg.connect(dsn)
    async with floor.working() as worker:
        await floor.until("count(*) = 5 from penstock.jobs where status = 'processing'")
        before = dict(await floor.owner.fetch("select job_id, lease_expires_at from penstock.jobs"))
        async with other.transaction():
            await other.fetchval("select penstock.cancel($1, 'operator', 'slow typist')", ids[0])
            for job_id in ids[1:]:
                renewed_twice = "lease_expires_at > $2 from penstock.jobs where job_id = $1"
                await floor.until(renewed_twice, job_id, before[job_id] + 2 * LEASE)
            assert await store.reap(floor.owner) == []
        await floor.until("status = 'canceled' from penstock.jobs where job_id = $1", ids[0])
        release.set()
        await floor.until("not exists (select from penstock.jobs where finished_at is null)")
        await worker.settle()
    ends = await floor.owner.fetch(
        "select status, claim_seq, attempt_count, count(*) from penstock.jobs group by 1, 2, 3"
    )
    assert {tuple(row) for row in ends} == {("canceled", 1, 0, 1), ("completed", 1, 0, 4)}
    await other.close()


@pytest.mark.contract("C-31")
async def test_a_completion_behind_somebodys_lock_waits_alone_and_is_written(floor: Floor, dsn: str) -> None:
    ids, release = await hang(floor, 20)
    other = await asyncpg.connect(dsn)
    async with floor.working() as worker:
        await floor.until("count(*) = 20 from penstock.jobs where status = 'processing'")
        async with other.transaction():
            await other.execute("select from penstock.jobs where job_id = $1 for update", ids[7])
            release.set()
            await floor.until("count(*) = 19 from penstock.jobs where status = 'completed'")
            assert worker.recorder.waiting > 0
        await worker.settle()
        assert worker.recorder.waiting == 0
    row = await floor.job(ids[7])
    assert (row["status"], row["claim_seq"], row["attempt_count"]) == ("completed", 1, 0)
    await other.close()


@pytest.mark.contract("C-62")
@pytest.mark.parametrize("code", ["55P03", "57014", "40001"])
async def test_a_trigger_that_raises_as_if_it_had_waited_holds_up_nobody_and_an_operator_is_told(
    floor: Floor, superuser_dsn: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "TOLD_AFTER", 2)
    superuser = await asyncpg.connect(superuser_dsn)
    await superuser.execute(HOOK.format(body=f"raise exception 'busy' using errcode = '{code}';"))

    @floor.app.job("bad", attempts=1)
    async def bad(job: Any, args: Any) -> None:
        raise ValueError

    @floor.app.job("good")
    async def good(job: Any, args: Any) -> None:
        """Nothing but its end."""

    bad_id = await floor.app.enqueue("bad")
    async with floor.working() as worker:
        await floor.until("status = 'processing' from penstock.jobs where job_id = $1", bad_id)
        await floor.app.enqueue_many("good", [{}] * 5)
        await floor.until("count(*) = 5 from penstock.jobs where status = 'completed'")
        await floor.until("exists (select from penstock.alerts where kind = 'end_refused')")
        await superuser.execute("drop trigger hook on penstock.jobs")
        await floor.until("status = 'failed' from penstock.jobs where job_id = $1", bad_id)
        await worker.settle()
    assert (await floor.job(bad_id))["claim_seq"] == 1
    await superuser.close()


@pytest.mark.contract("C-62", "D-31")
@pytest.mark.parametrize(
    "body", ["raise exception 'busy' using errcode = '40001';", "perform from public.held for update;"]
)
async def test_a_trigger_that_stops_a_reaper_holds_up_neither_other_claims_nor_other_jobs(
    floor: Floor, superuser_dsn: str, body: str
) -> None:
    superuser, other = await asyncpg.connect(superuser_dsn), await asyncpg.connect(superuser_dsn)
    await superuser.execute("create table public.held as select 1 as n")
    await superuser.execute("grant all on public.held to public")
    await superuser.execute(HOOK.format(body=body))
    for name in ("bad", "good"):

        @floor.app.job(name, attempts=1)
        async def job(job: Any, args: Any) -> None:
            """Nothing but its end."""

    await floor.app.sync_types()
    ids = [await floor.app.enqueue(name) for name in ("bad", "good")]
    await floor.owner.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'gone', "
        "claimed_at = penstock.now(), lease_expires_at = penstock.now() - interval '1 minute'"
    )
    async with other.transaction():
        await other.execute("select from public.held for update")
        async with floor.working():
            await floor.until("status = 'failed' from penstock.jobs where job_id = $1", ids[1])
            fresh = await floor.app.enqueue("good")
            await floor.until("status = 'completed' from penstock.jobs where job_id = $1", fresh)
    assert (await floor.job(ids[0]))["status"] == "processing"
    assert await floor.owner.fetchval("select count(*) from penstock.alerts where kind = 'end_refused'") == 1
    for connection in (superuser, other):
        await connection.close()


@pytest.mark.contract("C-64")
async def test_a_lock_on_a_limited_type_holds_up_no_other_type(floor: Floor, superuser_dsn: str) -> None:
    other = await asyncpg.connect(superuser_dsn)
    for name, limits in (("limited", Limits(running=1)), ("free", Limits())):

        @floor.app.job(name, limits=limits)
        async def job(job: Any, args: Any) -> None:
            """Nothing but its end."""

    await floor.app.sync_types()
    async with other.transaction():
        await other.execute("select from penstock.types where job_type = 'limited' for update")
        async with floor.working():
            await floor.app.enqueue("limited")
            await floor.app.enqueue_many("free", [{}] * 5)
            await floor.until("count(*) = 5 from penstock.jobs where status = 'completed'")
    await other.close()
