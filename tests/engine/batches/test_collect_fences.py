"""The statements themselves: each moves a job only while it waits for this very item, and only once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.store import batch_items
from penstock.store.batch_items import Back, Dead, Ending, Onward
from tests.engine.batches.conftest import MakeLane
from tests.engine.batches.returning import Home, make_home


@pytest.fixture
async def home(make_lane: MakeLane) -> Home:
    return await make_home(make_lane)


def end_of(verb: str, end: Ending) -> Any:
    """The end of an item as each statement takes it."""
    return {
        "complete": end,
        "advance": Onward(end, "run", "run", None),
        "requeue": Back(end, timedelta(0), charged=True, code="UPSTREAM_5XX", message=""),
        "fail": Dead(end, "SCHEMA_INVALID", "", False, "non_retryable", "stack", "{}", 1, None),
    }[verb]


def ending(item: Any, claim_seq: int | None = None) -> Ending:
    fence = item["claim_seq"] if claim_seq is None else claim_seq
    return Ending(item["batch_item_index"], item["job_id"], fence, None, 10, 5, 7)


@pytest.mark.contract("C-35")
@pytest.mark.parametrize("verb", ["complete", "advance", "requeue", "fail"])
async def test_no_statement_moves_a_job_under_another_claim(home: Home, verb: str) -> None:
    await home.sent(1)
    (item,) = await home.items()
    before = await home.jobs()

    end = end_of(verb, ending(item, claim_seq=2))
    settled = await getattr(batch_items, verb)(home.owner, item["batch_id"], None, [end])

    assert [(done.number, done.state) for done in settled] == [(0, "late")]
    assert await home.jobs() == before
    assert await home.owner.fetchval("select count(*) from penstock.dead_letters") == 0


@pytest.mark.contract("A-95")
@pytest.mark.parametrize("verb", ["complete", "requeue", "fail"])
async def test_an_item_that_has_its_end_keeps_it_and_is_paid_for_once(home: Home, verb: str) -> None:
    await home.sent(1)
    (item,) = await home.items()
    write = getattr(batch_items, verb)

    first = await write(home.owner, item["batch_id"], None, [end_of(verb, ending(item))])
    again = await write(home.owner, item["batch_id"], None, [end_of(verb, ending(item))])

    assert [done.state for done in first] == [{"complete": "completed", "requeue": "retried", "fail": "failed"}[verb]]
    assert again == []
    assert await home.owner.fetchval("select cost_micros from penstock.spend") == 7
    assert await home.states() == [first[0].state]


@pytest.mark.contract("C-35")
@pytest.mark.parametrize("verb", ["complete", "requeue", "fail"])
@pytest.mark.parametrize("status", ["canceled", "queued", "completed"])
async def test_a_job_that_does_not_wait_is_not_moved(home: Home, verb: str, status: str) -> None:
    await home.sent(1)
    (item,) = await home.items()
    finished = "null" if status == "queued" else "penstock.now()"
    await home.owner.execute(f"update penstock.jobs set status = $1, finished_at = {finished}", status)

    settled = await getattr(batch_items, verb)(home.owner, item["batch_id"], None, [end_of(verb, ending(item))])

    assert [done.state for done in settled] == ["late"]
    assert await home.statuses() == {status: 1}
    assert await home.owner.fetchval("select cost_micros from penstock.spend") == 7  # it was paid for


async def test_a_batch_with_an_open_item_cannot_be_closed(home: Home) -> None:
    await home.sent(1)
    batch = await home.batch()
    await home.owner.execute("update penstock.batches set collector = 'me'")

    assert not await batch_items.collected(home.owner, batch["batch_id"], "me", None)
    await home.owner.execute("update penstock.batch_items set state = 'late', settled_at = penstock.now()")
    assert not await batch_items.collected(home.owner, batch["batch_id"], "another", None)
    assert await batch_items.collected(home.owner, batch["batch_id"], "me", None)
