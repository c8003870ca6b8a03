"""Submitters that are really killed, at every step of a submission: one live batch, no job lost, no attempt charged."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Job, Penstock
from penstock.contract.calls import Request
from penstock.contract.claims import Trigger
from penstock.contract.crash import CrashPoint
from penstock.testing.doomed import die_at
from tests.engine.batches.conftest import SUBMITTER, TYPE, Lane, MakeLane, accept, build
from tests.support.fake_provider import FakeAdapter, FakeProvider

COUNT = 5
Build = Callable[[Job, dict[str, Any]], Request]


async def killed_at(point: CrashPoint, lane: Lane, ask: Build = build) -> None:
    """Run the submitter in a process of its own that dies at *point*; the provider remembers what it did."""

    async def work() -> None:
        app = Penstock(lane.dsn)
        side = FakeProvider(ledger=lane.provider.ledger)
        app.use_adapters({"fake": lambda _url: FakeAdapter(side)})
        app.lane(TYPE, build=ask, accept=accept)
        async with app:
            await app.run_function(SUBMITTER, trigger=Trigger.SCHEDULE, insecure=True)

    await die_at(point, 1, work)
    lane.provider.remember()


async def run_until_settled(lane: Lane) -> None:
    """Later runs: leases run out, the recovery asks, asks again, and what is left is sent."""
    for _ in range(4):
        await lane.pass_time(minutes=16)
        await lane.submit()


@pytest.fixture
async def mortal(make_lane: MakeLane, tmp_path: Path) -> Lane:
    """A lane whose provider outlives its submitters."""
    made: Lane = await make_lane(provider=FakeProvider(ledger=tmp_path / "provider.jsonl"))
    return made


@pytest.mark.contract("C-36", "C-61")
@pytest.mark.parametrize(
    "point",
    [
        CrashPoint.AFTER_BATCH_INTENT,
        CrashPoint.AFTER_BATCH_UPLOAD,
        CrashPoint.AFTER_BATCH_CREATE,
        CrashPoint.AFTER_BATCH_MARK,
    ],
)
async def test_a_submitter_killed_after_its_intent_costs_no_attempt_and_leaves_one_live_batch(
    mortal: Lane, point: CrashPoint
) -> None:
    ids = await mortal.fill(COUNT)
    await killed_at(point, mortal)

    await run_until_settled(mortal)

    rows = [await mortal.job(job_id) for job_id in ids]
    assert [(row["status"], row["attempt_count"]) for row in rows] == [("batch_submitted", 0)] * COUNT
    (live,) = mortal.provider.live
    names = {request["custom_id"] for request in live.requests()}
    open_items = await mortal.owner.fetch("select custom_id from penstock.batch_items where state = 'open'")
    assert names == {row["custom_id"] for row in open_items}
    assert len(names) == COUNT


async def test_a_submitter_killed_before_its_intent_is_like_any_killed_worker(mortal: Lane) -> None:
    ids = await mortal.fill(COUNT)
    await killed_at(CrashPoint.BEFORE_BATCH_INTENT, mortal)
    assert mortal.provider.batches == []

    await run_until_settled(mortal)

    rows = [await mortal.job(job_id) for job_id in ids]
    assert [(row["status"], row["attempt_count"]) for row in rows] == [("batch_submitted", 1)] * COUNT
    assert len(mortal.provider.live) == 1


@pytest.mark.contract("C-13", "C-36")
async def test_a_request_that_ends_its_submitter_is_the_only_one_that_pays(mortal: Lane) -> None:
    """The others are built alone, one by one, and then go out together."""
    culprit, *others = await mortal.fill(COUNT)

    def deadly(job: Job, args: dict[str, Any]) -> Request:
        if args["n"] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return build(job, args)

    for _ in range((await mortal.job(culprit))["max_attempts"]):
        await killed_at(CrashPoint.AFTER_BATCH_MARK, mortal, deadly)
        await mortal.pass_time(minutes=16)
    await mortal.submit()

    assert (await mortal.job(culprit))["last_error_code"] == "LEASE_EXPIRED"
    rows = [await mortal.job(job_id) for job_id in others]
    assert [(row["status"], row["attempt_count"], row["suspect"]) for row in rows] == [
        ("batch_submitted", 1, False)
    ] * len(others)
    (live,) = mortal.provider.live
    assert len(live.requests()) == len(others)
