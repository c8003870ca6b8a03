"""A job belongs to the caller's transaction, whatever driver the caller has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from penstock import Penstock
from penstock.contract.errors import (
    EnqueueRefused,
    IdempotencyKeyReused,
    NothingCommitted,
    PayloadRejected,
    UnknownType,
)
from tests.engine.enqueue.callers import EVERY_CALLER, Caller, Work
from tests.engine.enqueue.conftest import ENRICHMENT_CHANNEL, Office

By = Callable[[Penstock, str, Work], Awaitable[Any]]
every_caller = pytest.mark.parametrize("by", EVERY_CALLER, ids=lambda by: by.__name__)

ITEMS = "create table if not exists items (item_id integer primary key)"
INSERT_ITEM = "insert into items values (1)"


class Undecided(Exception):
    """What makes a caller roll back."""


@pytest.fixture
async def shop(office: Office) -> Office:
    await office.owner.execute(ITEMS)
    return office


@every_caller
@pytest.mark.contract("D-08", "C-53", "D-33", "Q-07")
async def test_a_job_appears_with_the_row_it_was_enqueued_beside(shop: Office, by: By) -> None:
    async def work(caller: Caller) -> Any:
        await caller.execute(INSERT_ITEM)
        job_id = await caller.enqueue("enrichment", {"item_id": 1})
        assert await shop.count() == 0, "nobody sees it before the commit"
        return job_id

    job_id = await by(shop.app, shop.dsn, work)

    assert await shop.payload(job_id) == {"item_id": 1}
    assert await shop.count() == 1
    assert await shop.pokes() == [(ENRICHMENT_CHANNEL, '{"job_type": "enrichment"}')]


@every_caller
@pytest.mark.contract("D-08", "C-53", "D-33", "C-27")
async def test_a_rollback_takes_the_job_and_its_poke_with_it(shop: Office, by: By) -> None:
    async def work(caller: Caller) -> None:
        await caller.execute(INSERT_ITEM)
        await caller.enqueue("enrichment", {"item_id": 1})
        await caller.enqueue_many("noop", [{"n": 1}, {"n": 2}])
        raise Undecided

    with pytest.raises(Undecided):
        await by(shop.app, shop.dsn, work)

    assert await shop.count() == 0
    assert await shop.owner.fetchval("select count(*) from items") == 0
    assert await shop.pokes() == []


@every_caller
async def test_what_is_wrong_with_a_job_leaves_the_callers_transaction_good(shop: Office, by: By) -> None:
    await shop.app.enqueue("noop", {"n": 1}, key="taken")
    wrong: list[tuple[type[EnqueueRefused], tuple[Any, ...], dict[str, Any]]] = [
        (UnknownType, ("nowhere", {}), {}),
        (PayloadRejected, ("noop", {"text": "a\x00b"}), {}),
        (IdempotencyKeyReused, ("noop", {"n": 2}), {"key": "taken"}),
        (EnqueueRefused, ("noop", {}), {"priority": 40_000}),
        (EnqueueRefused, ("noop", {}), {"limit_key": "a\x00b"}),
    ]

    async def work(caller: Caller) -> None:
        await caller.execute(INSERT_ITEM)
        for error, arguments, options in wrong:
            with pytest.raises(error):
                await caller.enqueue(*arguments, **options)
        await caller.enqueue("noop", {"n": 3})

    await by(shop.app, shop.dsn, work)

    assert await shop.owner.fetchval("select count(*) from items") == 1
    assert await shop.count() == 2, "the one that was there, and the one that was right"


@every_caller
@pytest.mark.contract("C-65")
async def test_a_bulk_that_is_refused_leaves_the_callers_transaction_good(shop: Office, by: By) -> None:
    await shop.app.enqueue("noop", {"n": 1}, key="taken")

    async def work(caller: Caller) -> None:
        await caller.execute(INSERT_ITEM)
        with pytest.raises(IdempotencyKeyReused):
            await caller.enqueue_many("noop", [{"n": n} for n in range(2500)], keys=[None] * 2499 + ["taken"])
        with pytest.raises(UnknownType):
            await caller.enqueue_many("nowhere", [{"n": 1}])

    await by(shop.app, shop.dsn, work)

    assert await shop.owner.fetchval("select count(*) from items") == 1
    assert await shop.count() == 1, "not even the sets before the one that was refused"


@every_caller
@pytest.mark.contract("C-65")
async def test_every_option_means_the_same_over_every_driver(shop: Office, by: By) -> None:
    """A delay is a span, also for a session whose clocks go forward meanwhile."""
    await shop.owner.execute("insert into penstock.clock (shift) values ('2027-03-13 18:00+00'::timestamptz - now())")

    async def work(caller: Caller) -> Any:
        await caller.execute("set time zone 'America/New_York'")
        first = await caller.enqueue(
            "noop", {"text": "ünïcödé 😀 % :p1 $1", "n": None}, key="k", delay=90_061.5, priority=-7, limit_key="home-1"
        )
        again = await caller.enqueue("noop", {"n": None, "text": "ünïcödé 😀 % :p1 $1"}, key="k")
        many = await caller.enqueue_many(
            "noop", [{"n": 1}, {"n": 2}], keys=["k1", None], limit_keys=["a", None], priority=3
        )
        return first, again, many

    first, again, many = await by(shop.app, shop.dsn, work)

    job = await shop.job(first)
    assert again == first
    assert (job["run_at"] - job["created_at"]).total_seconds() == 90_061.5
    assert (job["priority"], job["limit_key"], job["idempotency_key"], job["ready"]) == (-7, "home-1", "noop:k", False)
    rows = [await shop.job(job_id) for job_id in many]
    assert [(row["priority"], row["limit_key"], row["idempotency_key"]) for row in rows] == [
        (3, "a", "noop:k1"),
        (3, None, None),
    ]


async def test_a_connection_of_no_known_kind_is_refused_with_the_kinds_that_are(office: Office) -> None:
    with pytest.raises(EnqueueRefused, match="enqueue_sync"):
        await office.app.enqueue("noop", connection=object())
    with pytest.raises(EnqueueRefused, match="Session"):
        office.app.enqueue_sync("noop", connection=office.owner)


@pytest.mark.contract("D-08", "C-27")
async def test_a_transaction_that_had_failed_says_that_nothing_was_committed(office: Office) -> None:
    """The server answers the COMMIT of a failed transaction with ROLLBACK, and no error."""

    async def fail_and_go_on() -> None:
        async with office.app.transaction() as tx:
            await office.app.enqueue("noop", {"n": 1})
            with pytest.raises(asyncpg.DivisionByZeroError):
                await tx.execute("select 1 / 0")

    with pytest.raises(NothingCommitted, match="nothing was committed"):
        await fail_and_go_on()
    assert await office.count() == 0
    assert await office.pokes() == []

    async with office.app.transaction() as tx:
        await office.app.enqueue("noop", {"n": 1})
        with pytest.raises(asyncpg.DivisionByZeroError):
            async with tx.transaction():
                await tx.execute("select 1 / 0")
    assert await office.count() == 1
