"""How an item learns that its enrichment has failed for good, and how it is asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from penstock.apps.vault import Item, ItemMoveRefused
from penstock.engine.replay import replay
from penstock.store import connect
from penstock.store.roles import OPERATOR
from tests.apps.vault.conftest import World
from tests.apps.vault.items.gate import asking, gated, somebody_waits

RoleDsn = Callable[[str], str]


async def failed(world: World) -> Item:
    """An item whose enrichment has failed for good."""
    rule = world.emulator.answers.add({"nothing": "of use"})
    item = await world.save()
    await world.work()
    world.emulator.answers.rules.remove(rule)
    assert await world.status(item) == "ENRICHMENT_FAILED"
    return item


@pytest.mark.contract("C-62")
async def test_a_job_that_fails_for_good_fails_its_item_in_the_same_transaction(world: World) -> None:
    item = await failed(world)
    row, job = await world.row(item), await world.job(item)
    assert (row["failure_code"], row["title"], job["status"]) == ("SCHEMA_INVALID", None, "failed")
    same = "select i.xmin = j.xmin from vault.items i, penstock.jobs j where i.id = $1 and j.job_id = $2"
    assert await world.owner.fetchval(same, item.id, job["job_id"]) is True


@pytest.mark.contract("C-62")
async def test_a_failure_that_is_tried_again_leaves_the_item_waiting(world: World) -> None:
    world.emulator.faults.add("unavailable", times=3)
    item = await world.save()
    statuses = []
    for span in (0, 0, 30, 300):
        await world.pass_time(seconds=span)
        await world.work()
        statuses.append(await world.status(item))
    assert statuses == ["ENRICHING", "ENRICHING", "ENRICHING", "READY_TO_CONFIRM"]
    assert (world.asked(), (await world.job(item))["status"]) == (4, "completed")


@pytest.mark.contract("C-62")
async def test_an_item_whose_attempts_are_used_up_says_so(world: World) -> None:
    world.emulator.faults.add("unavailable")
    item = await world.save()
    for span in (0, 0, 30, 300):
        await world.pass_time(seconds=span)
        await world.work()
    row = await world.row(item)
    assert (row["status"], row["failure_code"], world.asked()) == ("ENRICHMENT_FAILED", "UPSTREAM_5XX", 4)


@pytest.mark.contract("C-62")
async def test_a_cancel_and_the_reaper_tell_the_item_although_no_handler_runs(world: World) -> None:
    canceled, reaped = await world.save(), await world.save()
    await world.owner.execute(
        "select penstock.cancel($1, 'tester', 'no longer wanted')", (await world.job(canceled))["job_id"]
    )
    await world.owner.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'gone', reclaim_count = 5, "
        "claimed_at = penstock.now(), lease_expires_at = penstock.now() where job_id = $1",
        (await world.job(reaped))["job_id"],
    )
    await world.pass_time(seconds=1)
    await world.work()
    assert [(await world.row(item))["failure_code"] for item in (canceled, reaped)] == ["CANCELED", "LEASE_EXPIRED"]
    assert [await world.status(item) for item in (canceled, reaped)] == ["ENRICHMENT_FAILED"] * 2
    assert world.asked() == 0


@pytest.mark.contract("C-62")
async def test_a_failed_item_is_enriched_when_it_is_asked_for_again(world: World) -> None:
    item = await failed(world)
    again = await world.people.enrich_again(owner_id=world.person, item_id=item.id)
    assert (again.status.value, again.failure_code, again.enrichment_round) == ("ENRICHING", None, 2)
    second = await world.job(item, 2)
    assert (second["status"], second["payload"]) == ("queued", f'{{"item_id": "{item.id}"}}')
    await world.work()
    assert await world.status(item) == "READY_TO_CONFIRM"


async def test_of_two_who_ask_again_at_once_one_begins_a_round(world: World) -> None:
    item = await failed(world)
    done = await asyncio.gather(
        *(world.people.enrich_again(owner_id=world.person, item_id=item.id) for _ in range(3)), return_exceptions=True
    )
    assert sorted(isinstance(each, ItemMoveRefused) for each in done) == [False, True, True]
    assert (await world.row(item))["enrichment_round"] == 2


@pytest.mark.contract("C-62")
async def test_a_job_of_an_earlier_round_does_not_fail_the_round_that_runs(world: World) -> None:
    """Rounds are told apart by their keys: a late end of the first one is none of the second's business."""
    item = await failed(world)
    await world.people.enrich_again(owner_id=world.person, item_id=item.id)
    stray = await world.owner.fetchval(
        "select penstock.enqueue('enrichment', jsonb_build_object('item_id', $1::text))", str(item.id)
    )
    await world.owner.execute("select penstock.cancel($1, 'tester', 'of the first round')", stray)
    assert await world.status(item) == "ENRICHING"
    await world.owner.execute(
        "select penstock.cancel($1, 'tester', 'of this round')", (await world.job(item, 2))["job_id"]
    )
    assert await world.status(item) == "ENRICHMENT_FAILED"


@pytest.mark.contract("C-62")
async def test_the_replay_of_a_dead_letter_puts_the_item_back(world: World, role_dsn: RoleDsn) -> None:
    item = await failed(world)
    letter = await world.owner.fetchval("select dead_letter_id from penstock.dead_letters")
    operator = await connect.create_pool(role_dsn(OPERATOR), size=2)
    await replay(operator, letter, operator="tester")
    await operator.close()
    assert await world.status(item) == "ENRICHING"
    await world.work()
    assert await world.status(item) == "READY_TO_CONFIRM"


async def test_a_cancel_at_the_very_end_waits_for_the_job_and_not_for_the_item(world: World) -> None:
    """Everybody locks the job and then its item: a cancel and an end that meet do not wait for each other."""
    item, gate = await world.save(), gated(world)
    job = await world.job(item)
    async with asking(world, gate), world.owner.transaction():
        await world.owner.execute("select from penstock.jobs where job_id = $1 for update", job["job_id"])
        gate.opened.set()
        await somebody_waits(world)
        await world.owner.execute("set local lock_timeout = '300ms'")
        await world.owner.execute("select penstock.cancel($1, 'tester', 'too late?')", job["job_id"])
    assert ((await world.job(item))["status"], await world.status(item)) == ("canceled", "ENRICHMENT_FAILED")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("status = 'CONFIRMED'", "cannot become CONFIRMED"),
        ("content = 'another'", "what was saved cannot be changed"),
        ("owner_id = gen_random_uuid()", "what was saved cannot be changed"),
        ("title = 'mine'", "what was found is stored when its enrichment ends"),
        ("enrichment_round = 2", "a round follows the one before it"),
    ],
)
async def test_the_table_refuses_what_is_off_the_way(world: World, change: str, words: str) -> None:
    item = await world.save()
    before = await world.row(item)
    with pytest.raises(asyncpg.PostgresError, match=words):
        await world.owner.execute(f"update vault.items set {change}")
    assert await world.row(item) == before


@pytest.mark.contract("D-21")
async def test_every_move_that_is_not_on_the_way_is_refused(world: World) -> None:
    words = ("ENRICHING", "READY_TO_CONFIRM", "CONFIRMED", "DISCARDED", "ENRICHMENT_FAILED")
    await world.save()
    legal = set()
    for old in words:
        for new in words:
            if old != new and await _moves(world, old, new):
                legal.add((old, new))
    assert legal == {
        ("ENRICHING", "READY_TO_CONFIRM"), ("ENRICHING", "ENRICHMENT_FAILED"), ("ENRICHING", "DISCARDED"),
        ("READY_TO_CONFIRM", "CONFIRMED"), ("READY_TO_CONFIRM", "DISCARDED"),
        ("ENRICHMENT_FAILED", "ENRICHING"), ("ENRICHMENT_FAILED", "DISCARDED"),
    }  # fmt: skip


async def _moves(world: World, old: str, new: str) -> bool:
    def change(status: str) -> str:
        code = "'X'" if status == "ENRICHMENT_FAILED" else "null"
        return f"update vault.items set status = '{status}', failure_code = {code}, enrichment = '{{}}'"

    transaction = world.owner.transaction()
    await transaction.start()
    try:
        await world.owner.execute("alter table vault.items disable trigger user")
        await world.owner.execute(change(old))
        await world.owner.execute("alter table vault.items enable trigger user")
        await world.owner.execute(change(new))
    except asyncpg.PostgresError:
        return False
    else:
        return True
    finally:
        await transaction.rollback()
