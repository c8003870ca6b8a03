"""A worker process that is killed with -9 in the middle of an item."""

from __future__ import annotations

import asyncio
import signal

import pytest

from penstock.contract.crash import CrashPoint
from tests.apps.vault.conftest import World
from tests.apps.vault.ops.conftest import Start

MOVES = "select to_status from penstock.job_events where job_id = $1 order by event_id"


async def killed(start: Start, point: CrashPoint) -> None:
    """Let a process take the item that waits, and die at *point*."""
    dead = await asyncio.to_thread(start, "--name", "dead", PENSTOCK_CRASH_AT=point)
    assert await asyncio.to_thread(dead.ended) == -signal.SIGKILL


@pytest.mark.contract("D-81", "D-20", "D-14")
async def test_an_item_of_a_killed_worker_waits_for_its_lease_and_is_enriched_then(world: World, start: Start) -> None:
    item = await world.save()
    await killed(start, CrashPoint.AFTER_CLAIM)
    claimed = await world.job(item)
    assert (claimed["status"], claimed["claimed_by"], world.asked()) == ("processing", "dead", 0)
    await world.pass_time(minutes=4, seconds=50)
    assert await world.work() == 0, "the lease of five minutes still runs"
    await world.pass_time(seconds=15)
    assert await world.work() == 1
    job = await world.job(item)
    assert (job["status"], job["attempt_count"], await world.status(item)) == ("completed", 0, "READY_TO_CONFIRM")
    moves = [row["to_status"] for row in await world.owner.fetch(MOVES, job["job_id"])]
    assert moves == ["queued", "processing", "queued", "processing", "completed"]


@pytest.mark.contract("D-84", "C-60", "D-82")
async def test_a_kill_before_the_commit_leaves_nothing_of_the_enrichment_and_the_next_worker_does_it_once(
    world: World, start: Start
) -> None:
    item = await world.save()
    await killed(start, CrashPoint.BEFORE_TRANSACTION_COMMIT)
    assert world.asked() == 1, "it had its answer, and the row was written, but not committed"
    assert (await world.status(item), (await world.row(item))["enrichment"]) == ("ENRICHING", None)
    await world.pass_time(minutes=5, seconds=5)
    assert await world.work() == 1
    assert (await world.status(item), (await world.job(item))["status"]) == ("READY_TO_CONFIRM", "completed")
    assert await world.work() == 0
