"""Faults 21 to 30 of providers, each end to end: what comes of them, and that nothing is lost or stored twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from typing import Any

import pytest

from penstock.contract.claims import Trigger
from penstock.contract.crash import CrashPoint
from penstock.testing.doomed import die_at
from tests.engine.batches.conftest import SUBMITTER
from tests.engine.batches.scenarios import (
    ANTHROPIC,
    CREATE,
    DONE,
    RESULTS,
    UPLOAD,
    WAITING,
    World,
    at_anthropic,
    emulator,
    everywhere,
    make_app,
    started,
    where_files_are,
    world,
)  # fmt: skip
from tests.support.emulator import BATCH_SECONDS
from tests.support.processes import start_penstock

__all__ = ["emulator", "started", "world"]

ALL = {0, 1, 2, 3, 4}
MISSING = ("failed", 1, "BATCH_ITEM_MISSING")


@everywhere
@pytest.mark.contract("C-36")
async def test_fault_21_the_provider_accepted_and_its_reply_was_lost(world: World) -> None:
    world.emulator.faults.add("drop_after", **CREATE, times=1)
    await world.fill()
    await world.submit()
    assert {end[:2] for end in await world.ends()} == {("processing", 0)}

    await world.submit()  # asks before it sends
    assert world.asked(**CREATE) == 1
    await world.pass_time(seconds=BATCH_SECONDS)
    await world.submit()
    await world.collect()

    assert await world.ends() == [DONE] * 5
    assert world.asked(**CREATE) == 1


@everywhere
@pytest.mark.contract("E-03", "C-37")
async def test_fault_22_a_storm_of_refusals_is_waited_out_and_not_answered_in_a_loop(world: World) -> None:
    storm = world.emulator.faults.add("rate_limited", method="POST", retry_after=900)
    await world.fill()
    for _ in range(15):
        await world.submit()
        await world.pass_time(minutes=2)

    assert await world.ends() == [("queued", 0, "RATE_LIMITED")] * 5
    assert world.asked(method="POST") <= 3  # one in fifteen minutes
    world.emulator.faults.rules.remove(storm)
    await world.until_over()
    assert await world.outputs() == ALL


@everywhere
async def test_fault_22_a_provider_that_is_down_is_polled_more_and_more_slowly(world: World) -> None:
    await world.send()
    before = world.asked(method="GET")
    storm = world.emulator.faults.add("server_error", method="GET")
    for _ in range(24):
        await world.come_back(minutes=2.5)

    assert world.asked(method="GET") - before <= 12
    assert await world.ends() == [WAITING] * 5
    world.emulator.faults.rules.remove(storm)
    await world.come_back(minutes=30)
    assert await world.ends() == [DONE] * 5


@everywhere
@pytest.mark.contract("C-37", "A-61")
async def test_fault_22_items_that_are_always_refused_end_within_their_budget(world: World) -> None:
    world.emulator.faults.add("item_error", items=[4], status=429)
    await world.send()
    await world.come_back()
    assert (await world.ends())[4] == ("queued", 1, "RATE_LIMITED")
    world.emulator.faults.clear()
    world.emulator.faults.add("item_error", status=429)

    await world.until_over()

    assert (await world.ends())[4] == ("failed", 3, "RATE_LIMITED")
    assert len(await world.outputs()) == 4


@everywhere
@pytest.mark.contract("C-36", "C-66")
async def test_fault_23_a_submitter_killed_before_it_could_save_the_batch_leaves_one(world: World) -> None:
    await world.fill()

    async def work() -> None:
        async with make_app(world.dsn, world.kind, world.emulator) as app:
            await app.run_function(SUBMITTER, trigger=Trigger.SCHEDULE, insecure=True)

    await die_at(CrashPoint.AFTER_BATCH_CREATE, 1, work)
    await world.until_over()

    assert await world.ends() == [DONE] * 5
    assert await world.outputs() == ALL
    assert world.asked(**CREATE) == 1


@everywhere
@pytest.mark.contract("A-97", "C-37")
async def test_fault_24_an_item_without_a_line_is_never_silently_done(world: World) -> None:
    world.emulator.faults.add("missing", items=[2])
    await world.send()
    await world.come_back()

    assert await world.ends() == [DONE, DONE, MISSING, DONE, DONE]
    assert "batch_count_mismatch" in await world.alerts()


@everywhere
@pytest.mark.contract("A-93", "C-37")
async def test_fault_25_lines_of_others_are_dropped_and_reach_nobody(world: World) -> None:
    await world.send()
    (first,) = world.emulator.batches
    strangers = [first.items[0].custom_id, "f" * 32 + "-0-1", "x"]
    world.emulator.faults.add("foreign", custom_ids=strangers)
    await world.send(2)
    await world.come_back()

    assert set(await world.ends()) == {DONE}
    assert await world.outputs() == set(range(7))
    assert "batch_items_unknown" in await world.alerts()


@everywhere
@pytest.mark.parametrize("differs", [False, True])
@pytest.mark.contract("C-37")
async def test_fault_26_an_item_that_comes_twice_counts_once_or_not_at_all(world: World, differs: bool) -> None:
    world.emulator.faults.add("duplicate", items=[1], differs=differs)
    world.emulator.faults.add("shuffle")
    await world.send()
    await world.come_back()

    assert (await world.ends())[1] == (("failed", 1, "BATCH_ITEM_AMBIGUOUS") if differs else DONE)
    assert await world.outputs() == (ALL - {1} if differs else ALL)
    assert "batch_items_doubled" in await world.alerts()


@everywhere
@pytest.mark.contract("A-95")
async def test_fault_27_a_truncated_file_marks_nothing_and_is_downloaded_again(world: World) -> None:
    world.emulator.faults.add("truncate", **RESULTS, times=1, framing="close")
    await world.send()
    await world.come_back()
    assert await world.ends() == [WAITING] * 5
    assert await world.outputs() == set()

    await world.come_back(minutes=30)

    assert await world.outputs() == ALL
    assert world.asked(**RESULTS) == 2


@everywhere
@pytest.mark.contract("A-93", "A-96", "C-37")
async def test_fault_27_a_line_that_the_provider_broke_holds_no_other_up(world: World) -> None:
    world.emulator.faults.add("broken_line", items=[2])
    await world.send()
    await world.come_back()

    assert await world.ends() == [DONE, DONE, MISSING, DONE, DONE]
    assert {"batch_items_unknown", "batch_count_mismatch"} <= await world.alerts()
    assert await world.outputs() == ALL - {2}


@everywhere
@pytest.mark.contract("C-37")
async def test_fault_28_what_an_expired_batch_has_finished_is_taken(world: World) -> None:
    world.emulator.faults.add("expire", done=3, times=1)
    await world.send()
    await world.come_back()

    finished = set() if world.kind == "gemini_generate" else {0, 1, 2}
    assert await world.outputs() == finished
    assert {end for n, end in enumerate(await world.ends()) if n not in finished} == {("queued", 1, "BATCH_EXPIRED")}
    await world.until_over()
    assert await world.outputs() == ALL


@where_files_are
@pytest.mark.contract("A-97", "C-37")
async def test_fault_29_completed_without_an_output_file_fails_what_has_no_line(world: World) -> None:
    world.emulator.faults.add("no_output", times=1)
    await world.send()
    await world.come_back()

    assert await world.ends() == [MISSING] * 5
    assert "batch_count_mismatch" in await world.alerts()


@at_anthropic
async def test_fault_29_ended_without_results_is_waited_for_until_the_deadline(world: World) -> None:
    world.emulator.faults.add("no_output", times=1)
    await world.send()
    for _ in range(3):
        await world.come_back(minutes=20)
    assert await world.ends() == [WAITING] * 5
    assert "batch_missing" in await world.alerts()

    await world.come_back(hours=26)

    assert await world.ends() == [("queued", 1, "BATCH_EXPIRED")] * 5


async def terminated(world: World, fault: dict[str, Any], *, grace: float, seconds: float) -> float:
    """Run the submitter as a process whose *fault* request hangs, and SIGTERM it there; how long it took to leave."""
    hangs = world.emulator.faults.add("delay", **fault, seconds=seconds, times=1)
    command = ["run", SUBMITTER, "--app", "tests.support.lane_app:app", "--insecure"]
    own = {"PENSTOCK_DSN": world.dsn, "PENSTOCK_GRACE_SECONDS": str(grace)}
    lane = {"LANE_KIND": world.kind, "LANE_PROVIDER": world.emulator.url}
    env = {**os.environ, **own, **lane}
    child = await asyncio.to_thread(start_penstock, command, env, stdout=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(60):
            while not hangs.struck:
                await world.owner.execute("select pg_sleep(0.02)")
            begun = time.monotonic()
            child.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(child.wait, 60) == 0
        return time.monotonic() - begun
    finally:
        child.kill()
        await asyncio.to_thread(child.wait)


@where_files_are
async def test_fault_30_a_sigterm_during_the_upload_gives_the_jobs_back(world: World) -> None:
    await world.fill()

    took = await terminated(world, UPLOAD, grace=1, seconds=20)

    assert took < 10
    assert await world.ends() == [("queued", 0, "SHUTDOWN")] * 5
    assert await world.owner.fetchval("select state from penstock.batches") == "abandoned"
    await world.until_over()
    assert await world.outputs() == ALL


@where_files_are
async def test_fault_30_a_sigterm_during_the_upload_lets_it_end_within_the_grace(world: World) -> None:
    await world.fill()

    await terminated(world, UPLOAD, grace=30, seconds=1)

    assert await world.ends() == [WAITING] * 5
    await world.come_back()
    assert await world.outputs() == ALL


@everywhere
@pytest.mark.contract("C-36")
async def test_fault_30_a_sigterm_during_the_create_leaves_the_jobs_to_the_recovery(world: World) -> None:
    await world.fill()

    took = await terminated(world, CREATE, grace=1, seconds=3)

    assert took < 10
    assert {end[:2] for end in await world.ends()} == {("processing", 0)}
    assert await world.owner.fetchval("select state from penstock.batches") == "uncertain"
    await world.until_over()
    assert await world.outputs() == ALL
    assert len([batch for batch in world.live() if batch.end != "failed"]) == (world.kind != ANTHROPIC)
