"""The same results read twice: by two collectors, after a crash, after a commit whose reply was lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.contract.calls import Answer
from penstock.contract.crash import CrashPoint
from penstock.engine.batches import collector, settling
from penstock.providers.port import Phase
from penstock.store import batch_items
from tests.engine.batches.conftest import COLLECTOR, MakeLane
from tests.engine.batches.returning import Home, all_answers, make_home, store

AGAIN = "update penstock.batches set state = 'submitted', collected_at = null, next_poll_at = null"


@pytest.fixture
async def home(make_lane: MakeLane) -> Home:
    return await make_home(make_lane, lane={"persist": store})


class Killed(BaseException):
    """As by kill -9: nothing but the connection's end tells the database."""


def kill_at(monkeypatch: pytest.MonkeyPatch, point: CrashPoint, passages: int = 1) -> None:
    """Die once, at the n-th passage of *point*."""
    left = [passages]

    def passing(passed: CrashPoint) -> None:
        if passed is point:
            left[0] -= 1
            if left[0] == 0:
                raise Killed

    for module in (collector, settling):
        monkeypatch.setattr(module, "passing", passing)


@pytest.mark.contract("A-95")
async def test_the_same_results_ingested_twice_change_nothing_and_call_nobody(make_lane: MakeLane) -> None:
    judged: list[Any] = []

    def accept(job: Any, _args: Any, said: Answer) -> str:
        judged.append(job.job_id)
        return said.text

    home = await make_home(make_lane, lane={"accept": accept, "persist": store})
    ids = await home.sent(3)
    await home.collected()
    before = (await home.jobs(), await home.outputs(), await home.owner.fetch("select * from penstock.spend"))

    await home.owner.execute(AGAIN)
    await home.collected()

    assert (await home.jobs(), await home.outputs(), await home.owner.fetch("select * from penstock.spend")) == before
    assert judged == ids
    assert (await home.batch())["state"] == "collected"


@pytest.mark.contract("A-95", "C-35")
@pytest.mark.parametrize("persists", [True, False])
async def test_an_item_that_is_open_again_finds_its_job_completed_and_is_late(
    make_lane: MakeLane, persists: bool
) -> None:
    home = await make_home(make_lane, lane={"persist": store if persists else None})
    await home.sent(2)
    await home.collected()
    outputs = await home.outputs()

    await home.owner.execute(AGAIN)
    await home.owner.execute("update penstock.batch_items set state = 'open', settled_at = null")
    await home.collected()

    assert await home.states() == ["late", "late"]
    assert await home.outputs() == outputs
    assert await home.statuses() == {"completed": 2}


@pytest.mark.contract("A-55", "A-95")
@pytest.mark.parametrize(
    ("point", "passages"),
    [
        (CrashPoint.AFTER_BATCH_POLL, 1), (CrashPoint.AFTER_BATCH_DOWNLOAD, 1), (CrashPoint.BEFORE_ITEM_COMMIT, 1),
        (CrashPoint.BEFORE_ITEM_COMMIT, 3), (CrashPoint.AFTER_ITEM_COMMIT, 1), (CrashPoint.AFTER_ITEM_COMMIT, 2),
        (CrashPoint.AFTER_BATCH_COLLECTED, 1),
    ],
)  # fmt: skip
async def test_a_collector_killed_anywhere_loses_nothing_and_stores_nothing_twice(
    home: Home, monkeypatch: pytest.MonkeyPatch, point: CrashPoint, passages: int
) -> None:
    ids = await home.sent(3)
    kill_at(monkeypatch, point, passages)

    with pytest.raises(Killed):
        await home.app.run_function(COLLECTOR, insecure=True)
    await home.pass_time(minutes=11)
    await home.collect()

    assert await home.outputs() == {job_id: f"re: letter {n}" for n, job_id in enumerate(ids)}
    assert await home.states() == ["completed"] * 3
    assert (await home.batch())["state"] == "collected"
    assert await home.owner.fetchval("select sum(calls) from penstock.spend") == 3
    assert len(home.provider.discarded) >= 1


async def test_a_batch_that_one_collector_has_is_left_alone_by_another(home: Home) -> None:
    await home.sent(2)
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        if home.provider.downloads == 1:
            reading.set()
            await go_on.wait()

    home.provider.before_download = wait
    first = asyncio.create_task(home.collected())
    await reading.wait()

    second = await home.collected()

    assert (second.claimed, home.provider.downloads) == (0, 1)
    go_on.set()
    assert (await first).claimed == 2
    assert await home.statuses() == {"completed": 2}


@pytest.mark.contract("C-35", "A-95")
async def test_a_collector_that_slept_past_its_lease_writes_nothing_that_another_has_written(home: Home) -> None:
    ids = await home.sent(3)
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        if home.provider.downloads == 1:
            reading.set()
            await go_on.wait()

    home.provider.before_download = wait
    sleeper = asyncio.create_task(home.collected())
    await reading.wait()
    await home.pass_time(minutes=11)
    assert (await home.collected()).claimed == 3

    go_on.set()

    assert (await sleeper).claimed == 0
    assert await home.outputs() == {job_id: f"re: letter {n}" for n, job_id in enumerate(ids)}
    assert await home.owner.fetchval("select sum(calls) from penstock.spend") == 3
    assert await home.states() == ["completed"] * 3


@pytest.mark.contract("A-95")
async def test_an_end_whose_reply_was_lost_is_not_written_twice(
    make_lane: MakeLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = await make_home(make_lane)
    ids = await home.sent(2)
    real = batch_items.complete
    cuts = [ConnectionResetError()]

    async def complete(db: Any, *arguments: Any) -> Any:
        settled = await real(db, *arguments)
        if cuts:
            raise cuts.pop()
        return settled

    monkeypatch.setitem(settling._WRITES, batch_items.Ending, complete)
    await home.collected()

    assert await home.codes(ids) == [("completed", None)] * 2
    assert await home.owner.fetchval("select sum(calls) from penstock.spend") == 2


@pytest.mark.contract("A-95", "C-60")
async def test_a_commit_of_own_rows_whose_reply_was_lost_is_not_made_twice(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await home.sent(2)
    cuts = [ConnectionResetError()]

    def passing(point: CrashPoint) -> None:
        if point is CrashPoint.AFTER_ITEM_COMMIT and cuts:
            raise cuts.pop()

    monkeypatch.setattr(settling, "passing", passing)
    await home.collected()

    assert await home.outputs() == {job_id: f"re: letter {n}" for n, job_id in enumerate(ids)}
    assert await home.states() == ["completed"] * 2
    assert await home.owner.fetchval("select sum(calls) from penstock.spend") == 2


async def test_a_batch_gone_to_another_collector_before_its_results_are_read_is_left_to_it(home: Home) -> None:
    await home.sent(1)
    home.provider.phase = Phase.COMPLETED
    real = batch_items.seen

    async def taken(*arguments: Any) -> bool:
        await home.owner.execute("update penstock.batches set collector = 'another'")
        return await real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_items, "seen", taken)
        await home.collected()

    assert (await home.statuses(), home.provider.downloads) == ({"batch_submitted": 1}, 0)


async def test_a_hundred_items_are_settled_with_a_handful_of_statements(make_lane: MakeLane) -> None:
    home = await make_home(make_lane, drain_cap=100)
    await home.sent(100)
    home.provider.lines = all_answers
    writes: list[int] = []
    real = batch_items.complete

    async def complete(db: Any, batch_id: Any, cap: Any, ends: Any) -> Any:
        writes.append(len(ends))
        return await real(db, batch_id, cap, ends)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(settling._WRITES, batch_items.Ending, complete)
        await home.collected()

    assert writes == [100]
    assert await home.statuses() == {"completed": 100}
