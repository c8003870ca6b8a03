"""Items and their jobs: saved together, confirmed, discarded, asked for again."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from penstock.apps.vault import (
    ConfirmItem,
    CreateItemUseCase,
    DiscardItem,
    EnrichAgain,
    ItemKind,
    ItemMoveRefused,
    ItemRefused,
    ItemStatus,
    OutboxJob,
    OutboxRepository,
    UnknownItem,
)
from penstock.apps.vault.items import ItemRepository
from penstock.contract.errors import StepRefused
from tests.apps.vault.conftest import World

CANARY = "canary-7d1f"


async def regretted(
    world: World, around: AbstractAsyncContextManager[Any], session: AsyncSession | None = None
) -> None:
    """An item and its job in a transaction that does not come to its end."""
    async with around as entered:
        use_case = CreateItemUseCase(session or entered, world.people.app)
        await use_case.execute(owner_id=world.person, content="Better not.")
        raise RuntimeError("the caller changes their mind")


@pytest.mark.contract("D-08", "C-53", "D-54")
async def test_an_item_and_its_job_are_there_together(world: World) -> None:
    item = await world.save()
    job = await world.job(item)
    assert (item.status, item.enrichment_round) == (ItemStatus.ENRICHING, 1)
    assert (job["status"], job["job_type"], job["payload"]) == ("queued", "enrichment", f'{{"item_id": "{item.id}"}}')
    assert job["idempotency_key"] == f"enrichment:{item.id}"


@pytest.mark.contract("D-08", "C-53")
async def test_a_failure_after_the_item_leaves_neither_item_nor_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    async def broken(outbox: OutboxRepository, item_id: str, job_type: str = "enrichment") -> OutboxJob:
        found = await outbox.session.execute(text("select count(*) from vault.items"))
        seen.append(found.scalar_one())
        raise RuntimeError(job_type)

    monkeypatch.setattr(OutboxRepository, "create", broken)
    with pytest.raises(RuntimeError):
        await world.save()
    assert seen == [1], "the item was in"
    assert (await world.counted("vault.items"), await world.counted("penstock.jobs")) == (0, 0)


@pytest.mark.contract("D-08", "C-53")
async def test_a_failure_after_the_job_leaves_neither_item_nor_job(world: World) -> None:
    with pytest.raises(RuntimeError):
        await regretted(world, world.people.session())
    assert (await world.counted("vault.items"), await world.counted("penstock.jobs")) == (0, 0)


@pytest.mark.contract("D-32")
async def test_the_outbox_is_asked_as_the_document_says(world: World) -> None:
    asked = inspect.signature(OutboxRepository.create)
    assert str(asked) in {
        "(self, item_id: 'str', job_type: 'str' = 'enrichment') -> 'OutboxJob'",
        "(self, item_id: 'str', job_type: 'str' = JOB_TYPE) -> 'OutboxJob'",
    }
    async with world.people.session() as session:
        item = await ItemRepository(session).create(world.person, ItemKind.NOTE, "Read the lease again.")
        outbox = OutboxRepository(session, world.people.app)
        job = await outbox.create(str(item.id))
        again = await outbox.create(str(item.id))
        there = await session.execute(text("select count(*) from penstock.jobs"))
        assert there.scalar_one() == 1, "inserted, and seen by the transaction, before it commits"
        assert await world.counted("penstock.jobs") == 0
    assert job == again == OutboxJob((await world.job(item))["job_id"], str(item.id), "enrichment", 1)


@pytest.mark.contract("D-32", "D-33", "D-37")
async def test_the_poke_goes_out_after_the_commit_and_never_after_a_rollback(world: World, dsn: str) -> None:
    listener = await asyncpg.connect(dsn)
    heard: asyncio.Queue[str] = asyncio.Queue()
    await listener.add_listener("litevault_jobs", lambda *said: heard.put_nowait(str(said[3])))
    try:
        with pytest.raises(RuntimeError):
            await regretted(world, world.people.session())
        async with world.people.session() as session:
            await CreateItemUseCase(session, world.people.app).execute(owner_id=world.person, content="kept")
            await listener.fetchval("select 1")
            assert heard.empty(), "nothing before the commit"
        assert await asyncio.wait_for(heard.get(), 10) == '{"job_type": "enrichment"}'
        await world.people.app.close()  # sends what is left
        await listener.fetchval("select 1")
        assert heard.empty(), "one for the commit, none for the rollback"
    finally:
        await listener.close()


@pytest.mark.contract("D-37", "D-33")
async def test_a_savepoint_that_is_undone_takes_item_job_and_poke_with_it(world: World, dsn: str) -> None:
    listener = await asyncpg.connect(dsn)
    heard: list[Any] = []
    await listener.add_listener("litevault_jobs", lambda *said: heard.append(said))
    async with world.people.session() as session:
        with pytest.raises(RuntimeError):
            await regretted(world, session.begin_nested(), session)
    await world.people.app.close()
    await listener.fetchval("select 1")
    await listener.close()
    assert (heard, await world.counted("vault.items"), await world.counted("penstock.jobs")) == ([], 0, 0)


@pytest.mark.contract("D-23")
async def test_another_type_for_the_same_item_needs_no_change_of_the_engine(world: World) -> None:
    """Vectors come later: a type is declared, put in through the same outbox, and runs."""
    done: list[str] = []
    for side in (world.people, world.worker):

        @side.app.job("vectors", channel="litevault_jobs", log_ids=("item_id",))
        async def vectors(args: dict[str, Any]) -> None:
            done.append(args["item_id"])

    await world.worker.app.sync_types()
    item = await world.save()
    async with world.people.session() as session:
        await ItemRepository(session).get_by_id(world.person, item.id)
        job = await OutboxRepository(session, world.people.app).create(str(item.id), "vectors")
    assert await world.work() == 2
    assert (done, job.job_type, await world.status(item)) == ([str(item.id)], "vectors", "READY_TO_CONFIRM")


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("content", "kind", "code"),
    [
        ("", "note", "item_empty"),
        (" \n\t\u200b\u2060\ufeff ", "text", "item_empty"),
        ("x" * 100_001, "text", "item_too_large"),
        ("é" * 50_001, "text", "item_too_large"),
        (f"a\0b {CANARY}", "note", "item_unreadable"),
        (f"\ud800 {CANARY}", "note", "item_unreadable"),
        (f"see {CANARY}", "link", "link_invalid"),
        (f"ftp://example.org/{CANARY}", "link", "link_invalid"),
        (f"https://me:{CANARY}@example.org/", "link", "link_invalid"),
        (f"https://example.org/\n{CANARY}", "link", "link_invalid"),
        (f"https://example.org/{CANARY}" + "x" * 2000, "link", "link_invalid"),
        (CANARY, "video", "kind_unknown"),
    ],
)
async def test_what_cannot_be_an_item_is_refused_by_code_and_leaves_nothing(
    world: World, content: str, kind: str, code: str
) -> None:
    with pytest.raises(ItemRefused) as refused:
        await world.people.create_item(owner_id=world.person, content=content, kind=kind)
    assert refused.value.code == code
    assert CANARY not in str(refused.value)
    assert (await world.counted("vault.items"), await world.counted("penstock.jobs")) == (0, 0)


async def test_the_largest_item_that_is_allowed_is_saved_and_enriched(world: World) -> None:
    item = await world.save("word " * 20_000)
    await world.work()
    assert await world.status(item) == "READY_TO_CONFIRM"
    assert len((await world.item(item)).content) == 100_000


async def test_an_item_that_nobody_knows_is_told_as_such(world: World) -> None:
    nobody = uuid4()
    for use_case in (ConfirmItem, DiscardItem, EnrichAgain):
        with pytest.raises(UnknownItem, match=str(nobody)):
            async with world.people.session() as session:
                await use_case(session).execute(owner_id=world.person, item_id=nobody)
    for wrong in (str(nobody), "no id", ""):
        with pytest.raises(UnknownItem):
            async with world.people.session() as session:
                await OutboxRepository(session, world.people.app).create(wrong)


async def test_an_item_of_somebody_else_is_one_that_nobody_knows(world: World) -> None:
    item = await world.save()
    stranger = uuid4()
    for wish in (world.people.read_item, world.people.confirm_item, world.people.discard_item):
        with pytest.raises(UnknownItem):
            await wish(owner_id=stranger, item_id=item.id)
    assert await world.people.list_items(owner_id=stranger) == []
    assert len(await world.people.list_items(owner_id=world.person)) == 1


async def test_a_second_confirm_is_refused_and_changes_nothing(world: World) -> None:
    item = await world.save()
    await world.work()
    confirmed = await world.people.confirm_item(owner_id=world.person, item_id=item.id)
    before = await world.row(item)
    with pytest.raises(ItemMoveRefused, match="was confirmed before") as refused:
        await world.people.confirm_item(owner_id=world.person, item_id=item.id)
    assert isinstance(refused.value, StepRefused)
    assert (confirmed.status, await world.row(item)) == (ItemStatus.CONFIRMED, before)


async def test_two_who_confirm_at_once_come_one_after_the_other(world: World) -> None:
    item = await world.save()
    await world.work()
    results = await asyncio.gather(
        *(world.people.confirm_item(owner_id=world.person, item_id=item.id) for _ in range(4)), return_exceptions=True
    )
    assert [isinstance(result, ItemMoveRefused) for result in results].count(False) == 1


async def test_moves_out_of_place_are_refused_with_the_way_on(world: World) -> None:
    item = await world.save()
    wishes = world.people
    with pytest.raises(ItemMoveRefused, match="wait until it is READY_TO_CONFIRM"):
        await wishes.confirm_item(owner_id=world.person, item_id=item.id)
    with pytest.raises(ItemMoveRefused, match="only a failed enrichment"):
        await wishes.enrich_again(owner_id=world.person, item_id=item.id)
    await world.work()
    await wishes.confirm_item(owner_id=world.person, item_id=item.id)
    with pytest.raises(ItemMoveRefused, match="what was confirmed is kept"):
        await wishes.discard_item(owner_id=world.person, item_id=item.id)
    other = await world.save()
    discarded = await wishes.discard_item(owner_id=world.person, item_id=other.id)
    assert await wishes.discard_item(owner_id=world.person, item_id=other.id) == discarded
    with pytest.raises(ItemMoveRefused, match="save it again"):
        await wishes.confirm_item(owner_id=world.person, item_id=other.id)


async def test_a_list_has_pages_statuses_and_beginnings(world: World) -> None:
    items = [await world.save(f"Item {number}. " + "long " * 100) for number in range(5)]
    await world.people.discard_item(owner_id=world.person, item_id=items[0].id)
    listed = world.people.list_items
    newest = [item.id for item in reversed(items)]
    assert [item.id for item in await listed(owner_id=world.person)] == newest
    first = await listed(owner_id=world.person, limit=2)
    second = await listed(owner_id=world.person, limit=2, before=first[-1].id)
    assert [item.id for item in first + second] == newest[:4]
    assert [item.id for item in await listed(owner_id=world.person, status="DISCARDED")] == [items[0].id]
    assert [len(item.preview) for item in first] == [200, 200]


async def test_a_session_of_the_callers_own_engine_will_do(world: World) -> None:
    from penstock.apps.vault.sessions import make_engine

    engine = make_engine(await world.people.app.dsn(), prepared=False)
    async with AsyncSession(engine) as session, session.begin():
        item = await CreateItemUseCase(session, world.people.app).execute(owner_id=world.person, content="Mine.")
    await engine.dispose()
    assert (await world.job(item))["status"] == "queued"


async def test_no_error_of_the_database_repeats_what_was_saved(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.owner.execute("alter table vault.items add constraint no_canaries check (content not like '%canary%')")
    with pytest.raises(Exception, match="SQLSTATE 23514") as raised:
        await world.save(f"some {CANARY}")
    link: BaseException | None = raised.value
    while link is not None:
        assert CANARY not in f"{link} {link!r}"
        link = link.__cause__ or link.__context__
