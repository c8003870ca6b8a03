"""Retries: what is tried again, what stays the same meanwhile, and how it ends when nothing helps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.apps.rewrite.conftest import MakeWorld, Sent, World
from tests.support.emulator import BATCH_SECONDS

DONE = ("completed", "completed", None)
UNTRIED = ("queued", "queued", "BATCH_EXPIRED")
KEPT = ("routing_decision", "source_locale", "target_locale", "lane", "max_attempts", "payload", "provider_batch_id")


async def kept(world: World, sent: Sent) -> list[Any]:
    """What a retry may not change."""
    row = await world.job(sent)
    return [row[name] for name in KEPT]


@pytest.mark.contract("A-61", "L-54", "A-05", "Q-75", "C-37")
async def test_what_a_batch_did_not_get_to_is_deferred_and_sent_again(world: World) -> None:
    home = await world.home("en", "es")
    sents = [await world.send(home) for _ in range(4)]
    await world.run_submitter()
    world.emulator.batches[0].plan.add("expire", after=30, done=2)
    await world.pass_time(seconds=BATCH_SECONDS)
    await world.run_collector()

    ends = await world.ends()
    assert sorted(ends) == [DONE, DONE, UNTRIED, UNTRIED]
    assert await world.slots() == 2
    await world.run_submitter()
    assert sorted(await world.ends()) == sorted(ends), "nothing is sent before its time"

    await world.pass_time(minutes=15)
    await world.through()
    assert await world.ends() == [(*DONE[:2], "BATCH_EXPIRED" if end == UNTRIED else None) for end in ends]
    outputs = [await world.output(sent) for sent in sents]
    assert all(output and sent.echo in output.rewritten_text for sent, output in zip(sents, outputs, strict=True))


@pytest.mark.contract("A-65", "L-56", "L-71", "C-40", "C-35")
async def test_a_retry_keeps_route_locales_lane_and_the_first_batch_id(make_world: MakeWorld) -> None:
    world: World = await make_world(profile="base")
    home = await world.home("en", "es")
    sent = await world.send(home)
    await world.run_submitter()
    before = await kept(world, sent)
    world.emulator.batches[0].plan.add("expire", after=30, done=0)
    await world.pass_time(seconds=BATCH_SECONDS)
    await world.run_collector()
    world.orchestrator.table = world.worker.table = (await make_world({"model": "gpt-6"})).worker.table
    await world.pass_time(minutes=15)
    await world.through()

    assert (await world.ends(sent))[0][:2] == DONE[:2]
    assert await kept(world, sent) == before
    ((first,), (second,)) = world.lines()
    assert first == second, "the very same question"
    ids = await world.owner.fetch("select provider_batch_id from penstock.batches order by created_at")
    assert before[-1] == ids[0][0] != ids[1][0]


@pytest.mark.contract("A-64", "L-57")
async def test_each_retry_waits_longer_than_the_one_before(make_world: MakeWorld) -> None:
    world: World = await make_world(rewrite_attempts=3)
    sent = await world.send(await world.home())
    waits = []
    for _ in range(2):
        await world.run_submitter()
        world.emulator.batches[-1].plan.add("item_error", status=500)
        await world.pass_time(seconds=BATCH_SECONDS)
        await world.run_collector()
        row = await world.job(sent)
        waits.append(row["run_at"] - row["last_error_at"])
        await world.pass_time(hours=2)

    assert waits == [timedelta(seconds=900), timedelta(seconds=7200)]


@pytest.mark.contract("A-73", "L-58", "A-48", "A-68")
async def test_when_all_attempts_have_failed_job_and_request_are_failed_and_nothing_is_kept(world: World) -> None:
    sent = await world.send(await world.home())
    for _ in range(2):
        await world.run_submitter()
        world.emulator.batches[-1].plan.add("item_error", status=503, message="leak-me-not")
        await world.pass_time(seconds=BATCH_SECONDS)
        await world.run_collector()
        await world.pass_time(hours=1)

    assert await world.ends(sent) == [("failed", "failed", "UPSTREAM_5XX")]
    assert (await world.slots(), await world.output(sent)) == (0, None)
    row = await world.request(sent)
    assert (row["failure_code"], row["rewrite_completed_at"]) == ("rewrite_unavailable", None)
    out = ["processing", "batch_submitted"]
    assert await world.trail(sent) == ["queued", *out, "queued", *out, "failed"]
    assert await world.leaks("leak-me-not") == []


@pytest.mark.contract("Q-71")
@pytest.mark.parametrize("mode", ["batch", "async"])
async def test_no_other_provider_is_asked_instead(make_world: MakeWorld, mode: str) -> None:
    world: World = await make_world({"execution_mode": mode})
    world.emulator.faults.add("server_error", provider="openai")
    sent = await world.send(await world.home())
    await world.run_submitter()
    await world.pass_time(hours=2)
    await world.run_submitter()

    assert {call.provider for call in world.emulator.calls} == {"openai"}
    assert (await world.job(sent))["status"] in ("queued", "failed")
