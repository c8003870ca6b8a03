"""Terminal hooks: an application's trigger in the transaction of the end, and hooks that raise (C-62)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest

from penstock import Failed, FailureClass, Penstock, Schedule
from penstock.store import claims, jobs
from penstock.testing import Harness
from tests.engine.looking import alerts, letter, nothing

if TYPE_CHECKING:
    Owner = asyncpg.Connection[Any]

HOOK = """
create table public.requests (job_id uuid primary key, state text not null default 'waiting');
create table public.switch (raises boolean not null);
insert into public.switch values (false);
create function public.on_end() returns trigger language plpgsql as $$
begin
    if (select raises from public.switch) and new.payload ? 'poison' then
        raise exception 'the hook is broken';
    end if;
    update public.requests set state = new.status where job_id = new.job_id;
    return null;
end $$;
create trigger on_end after update on penstock.jobs for each row
    when (new.job_type = 'request' and new.status in ('failed', 'canceled') and old.status <> new.status)
    execute function public.on_end();
"""


async def requested(harness: Harness, owner: Owner, **payload: Any) -> Any:
    job_id = await harness.enqueue("request", payload)
    await owner.execute("insert into public.requests (job_id) values ($1)", job_id)
    return job_id


async def state(owner: Owner, job_id: Any) -> str:
    return str(await owner.fetchval("select state from public.requests where job_id = $1", job_id))


@pytest.mark.contract("C-62")
async def test_the_application_learns_of_a_failure_in_the_same_transaction(app: Penstock, owner: Owner) -> None:
    await owner.execute(HOOK)

    @app.job("request")
    async def request(job: Any, args: Any) -> None:
        raise Failed(FailureClass.NOT_FOUND)

    async with Harness(app) as harness:
        job_id = await requested(harness, owner)
        await harness.drain()
        assert await state(owner, job_id) == "failed"
        same = "select r.xmin::text = j.xmin::text from public.requests r join penstock.jobs j using (job_id)"
        assert await owner.fetchval(same)


@pytest.mark.contract("C-62")
async def test_the_application_learns_of_an_end_by_the_reaper(app: Penstock, owner: Owner) -> None:
    await owner.execute(HOOK)
    app.job("request", attempts=1)(nothing)
    async with Harness(app) as harness:
        job_id = await requested(harness, owner)
        await claims.take(
            app.pool, ["request"], [timedelta(minutes=1)], [claims.START], limit=1, worker="gone", run=uuid4()
        )
        await harness.pass_time(minutes=2)
        await harness.drain()
        assert (await harness.status(job_id), await state(owner, job_id)) == ("failed", "failed")


@pytest.mark.contract("C-62")
@pytest.mark.parametrize("how", ["operator", "handler"])
async def test_the_application_learns_of_a_cancel(app: Penstock, owner: Owner, how: str) -> None:
    await owner.execute(HOOK)

    @app.job("request")
    async def request(job: Any, args: Any) -> None:
        job.cancel()

    async with Harness(app) as harness:
        job_id = await requested(harness, owner)
        if how == "operator":
            await jobs.cancel(app.pool, job_id, who="alex", why=None)
        await harness.drain()
        assert (await harness.status(job_id), await state(owner, job_id)) == ("canceled", "canceled")


@pytest.mark.contract("C-62")
async def test_a_hook_that_raises_holds_up_no_other_job_of_its_set(app: Penstock, owner: Owner) -> None:
    await owner.execute(HOOK)
    await owner.execute("update public.switch set raises = true")

    @app.job("request", attempts=1)
    async def request(job: Any, args: Any) -> None:
        raise Failed(FailureClass.NOT_FOUND)

    async with Harness(app, concurrency=40) as harness:
        ids = [await requested(harness, owner, n=n) for n in range(20)]
        poison = await requested(harness, owner, poison=True)
        async with asyncio.timeout(20):
            await harness.drain()
        assert {await harness.status(job_id) for job_id in ids} == {"failed"}
        row = await harness.job(poison)
        assert (row["status"], row["last_error_code"], row["attempt_count"]) == ("queued", "NOT_FOUND", 1)
        assert ("end_refused", "alert") in await alerts(harness)

        await owner.execute("update public.switch set raises = false")
        await harness.pass_time(minutes=2)
        await harness.drain()
        assert (await harness.status(poison), await state(owner, poison)) == ("failed", "failed")
        assert (await letter(harness, poison))["error_class"] == "NOT_FOUND"


@pytest.mark.contract("C-62")
async def test_a_hook_that_raises_holds_up_no_reaper(app: Penstock, owner: Owner) -> None:
    await owner.execute(HOOK)
    await owner.execute("update public.switch set raises = true")
    app.job("request", attempts=1)(nothing)
    async with Harness(app) as harness:
        poison = await requested(harness, owner, poison=True)
        others = [await requested(harness, owner, n=n) for n in range(5)]
        await claims.take(
            app.pool, ["request"], [timedelta(minutes=1)], [claims.START], limit=9, worker="gone", run=uuid4()
        )
        await harness.pass_time(minutes=2)
        assert {row["job_id"] for row in await claims.reap(app.pool)} == set(others)
        assert await harness.status(poison) == "processing"
        wake = await claims.next_wake(app.pool, ["request"])
        assert wake.expiry is not None
        assert wake.expiry > timedelta(seconds=50)  # looked at again in a minute, not in a loop
        assert await alerts(harness) == [("end_refused", "alert")]

        await owner.execute("update public.switch set raises = false")
        await harness.pass_time(minutes=2)
        assert [row["job_id"] for row in await claims.reap(app.pool)] == [poison]
        assert await state(owner, poison) == "failed"


@pytest.mark.contract("C-62")
async def test_a_refused_cancel_of_a_handler_comes_back_later(app: Penstock, owner: Owner) -> None:
    await owner.execute(HOOK)
    await owner.execute("update public.switch set raises = true")

    @app.job("request")
    async def request(job: Any, args: Any) -> None:
        job.cancel()

    async with Harness(app) as harness:
        poison = await requested(harness, owner, poison=True)
        await harness.drain()
        row = await harness.job(poison)
        assert (row["status"], row["last_error_code"], row["attempt_count"]) == ("queued", "END_REFUSED", 0)
        await owner.execute("update public.switch set raises = false")
        await harness.work_until_idle()
        assert await harness.status(poison) == "canceled"


@pytest.mark.contract("C-62")
async def test_a_completion_that_a_trigger_refuses_is_a_failed_attempt_and_the_others_complete(
    app: Penstock, owner: Owner
) -> None:
    await owner.execute(
        "create function public.no() returns trigger language plpgsql as "
        "$$ begin raise exception 'no' using errcode = '23514'; end $$"
    )
    await owner.execute(
        "create trigger no before update on penstock.jobs for each row "
        "when (new.status = 'completed' and new.payload ? 'poison') execute function public.no()"
    )
    app.job("request", attempts=1)(nothing)
    async with Harness(app, concurrency=40) as harness:
        ids = [await harness.enqueue("request", {"n": n}) for n in range(10)]
        poison = await harness.enqueue("request", {"poison": True})
        await harness.drain()
        assert {await harness.status(job_id) for job_id in ids} == {"completed"}
        dead = await letter(harness, poison)
        assert (dead["error_class"], dead["attempts"]) == ("SCHEMA_INVALID", 1)


@pytest.mark.contract("C-62")
async def test_a_retry_that_a_trigger_refuses_waits_for_its_lease_and_the_others_go_on(
    app: Penstock, owner: Owner
) -> None:
    await owner.execute(
        "create function public.no() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$"
    )
    await owner.execute(
        "create trigger no before update on penstock.jobs for each row "
        "when (old.status = 'processing' and new.status = 'queued' and new.payload ? 'poison') "
        "execute function public.no()"
    )

    @app.job("request", lease=timedelta(minutes=1), backoff=Schedule([600]), attempts=3)
    async def request(job: Any, args: Any) -> None:
        if job.attempt == 1 and job.claim_seq == 1:
            raise TimeoutError

    async with Harness(app, concurrency=40) as harness:
        ids = [await harness.enqueue("request", {"n": n}) for n in range(10)]
        poison = await harness.enqueue("request", {"poison": True})
        await harness.drain()
        assert {await harness.status(job_id) for job_id in ids} == {"queued"}
        assert await harness.status(poison) == "processing"
        await harness.pass_time(minutes=2)
        assert await claims.reap(app.pool) == []  # refused here too, and put off
        await owner.execute("drop trigger no on penstock.jobs")
        await harness.pass_time(minutes=2)
        await harness.work_until_idle()
        assert {await harness.status(job_id) for job_id in (*ids, poison)} == {"completed"}
