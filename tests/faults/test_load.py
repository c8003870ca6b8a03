"""Storms of pokes, errors in the middle of a flush, and a snapshot that somebody holds for hours."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg
import pytest

from penstock.engine.marks import Marks
from penstock.store import claims as store
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine.worker.conftest import Floor

LEASE = timedelta(minutes=5)


@pytest.mark.contract("D-40", "D-39")
async def test_a_hundred_thousand_pokes_make_a_handful_of_claims(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 18."""
    claims = 0
    take = store.take

    async def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal claims
        claims += 1
        return await take(*arguments, **options)

    done = asyncio.Event()

    @floor.app.job("echo")
    async def echo(job: Any, args: Any) -> None:
        done.set()

    async with floor.working() as worker, asyncio.timeout(60):
        monkeypatch.setattr(store, "take", counted)
        # Different payloads, since the server itself drops equal ones of one transaction.
        await floor.owner.execute("select pg_notify('penstock_jobs', n::text) from generate_series(1, 100000) as n")
        await floor.app.enqueue("echo")
        await done.wait()
        await worker.settle()
    assert claims < 1000


@pytest.mark.contract("C-31")
@pytest.mark.parametrize("state", ["40001", "40P01", "57014", "55P03"])
async def test_an_error_that_may_pass_inside_a_flush_burns_no_attempt(floor: Floor, state: str) -> None:
    """Fault 38: serialization, deadlock, statement timeout, lock timeout; three times, then the write succeeds."""
    await _trip_three_completions(floor, state)
    ran: list[int] = []

    @floor.app.job("echo")
    async def echo(job: Any, args: dict[str, int]) -> None:
        ran.append(args["n"])

    async with floor.working() as worker:
        await floor.app.enqueue_many("echo", [{"n": n} for n in range(10)])
        await floor.owner.execute("select pg_notify('penstock_jobs', '')")
        await floor.until("count(*) = 10 from penstock.jobs where status = 'completed'")
        await worker.settle()
    rows = await floor.owner.fetch("select attempt_count, claim_seq, last_error_code from penstock.jobs")
    assert {tuple(row) for row in rows} == {(0, 1, None)}
    assert sorted(ran) == list(range(10))


async def _trip_three_completions(floor: Floor, state: str) -> None:
    """A trigger that counts in a sequence, which no rollback sets back."""
    await floor.owner.execute(
        "create sequence public.tries; create function public.trip() returns trigger language plpgsql as $$ begin "
        f"if nextval('public.tries') <= 3 then raise exception using errcode = '{state}'; end if; return new; end $$; "
        "create trigger trip before update on penstock.jobs for each row when (new.status = 'completed') "
        "execute function public.trip()"
    )


@pytest.mark.contract("C-59")
async def test_claims_stay_cheap_while_somebody_holds_an_old_snapshot(floor: Floor) -> None:
    """Fault 39: dead index entries cannot be cleared; a claim from the mark does not walk over them."""

    @floor.app.job("echo")
    async def echo(job: Any, args: Any) -> None:
        """Done."""

    await floor.app.sync_types()
    holder = await asyncpg.connect(floor.dsn)
    await holder.execute("begin isolation level repeatable read")
    await holder.fetchval("select count(*) from penstock.jobs")
    await floor.app.enqueue_many("echo", [{"n": n} for n in range(10_000)])
    marks = Marks()
    first = await _buffers(floor, marks)
    for _ in range(18):
        claims = await _take(floor, marks)
        marks.advance(claims)
        await store.complete(floor.owner, "w", claims)
    from_the_mark, from_the_start = await _buffers(floor, marks), await _buffers(floor, Marks())
    await holder.close()
    assert from_the_mark < 2 * first
    assert from_the_start > 5 * from_the_mark, "the holder has not held anything"


async def _take(floor: Floor, marks: Marks) -> list[Any]:
    return await store.take(floor.owner, ["echo"], [LEASE], marks.of(["echo"], 0.0), limit=500, worker="w", run=uuid4())


async def _buffers(floor: Floor, marks: Marks) -> int:
    """The pages that a claim of 500 reads to find them; it is rolled back."""
    [mark] = marks.of(["echo"], 0.0)
    transaction = floor.owner.transaction()
    await transaction.start()
    text = await floor.owner.fetchval(
        f"explain (analyze, buffers, format json) {sql('claims/take_of_one')}", "echo", 500, "w", uuid4(), *mark, LEASE
    )  # fmt: skip
    await transaction.rollback()
    [probe] = [node for node in _nodes(json.loads(text)[0]["Plan"]) if node.get("Index Name") == "idx_outbox_runnable"]
    return int(probe["Shared Hit Blocks"] + probe["Shared Read Blocks"])


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)
