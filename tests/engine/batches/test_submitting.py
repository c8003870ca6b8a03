"""The submitter on a good day: claimed, grouped, handed over, marked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from penstock.contract.custom_ids import parse_custom_id
from penstock.engine.dispatcher import NOTHING_PENDING
from penstock.providers.port import BatchLimits, Submission
from tests.engine.batches.conftest import SUBMITTER, Lane, MakeLane


@pytest.mark.contract("Q-13", "Q-74", "A-40", "C-05")
async def test_submitted_jobs_wait_at_the_provider_and_hold_no_worker(lane: Lane) -> None:
    ids = await lane.fill(3)

    run = await lane.submitted()

    rows = [await lane.job(job_id) for job_id in ids]
    assert [row["status"] for row in rows] == ["batch_submitted"] * 3
    assert all(row["claimed_by"] is None and row["lease_expires_at"] is None for row in rows)
    assert (run.claimed, run.succeeded, run.requeued, run.failed) == (3, 3, 0, 0)
    (taken,) = lane.provider.batches
    assert [request["text"] for request in taken.requests()] == ["letter 0", "letter 1", "letter 2"]


@pytest.mark.contract("A-53", "A-54", "C-66")
async def test_every_item_is_numbered_and_leads_back_to_its_job_and_claim(lane: Lane) -> None:
    ids = await lane.fill(3)

    await lane.submitted()

    batch, items = await lane.batch(), await lane.items()
    assert [item["batch_item_index"] for item in items] == [0, 1, 2]
    assert [item["job_id"] for item in items] == ids
    names = [request["custom_id"] for request in lane.provider.batches[0].requests()]
    assert names == [item["custom_id"] for item in items]
    assert [parse_custom_id(name) for name in names] == [(batch["batch_id"], n, 1) for n in range(3)]


@pytest.mark.contract("A-19", "A-32", "L-36", "L-44", "C-35")
async def test_a_job_keeps_its_first_provider_batch_through_every_retry(lane: Lane) -> None:
    (job_id,) = await lane.fill(1)
    assert (await lane.job(job_id))["provider_batch_id"] is None

    await lane.submitted()
    await lane.owner.execute("update penstock.jobs set status = 'queued', ready = true")
    await lane.submitted()

    assert (await lane.job(job_id))["provider_batch_id"] == "pb_1"
    assert [batch["provider_batch_id"] for batch in await lane.batches()] == ["pb_1", "pb_2"]
    assert [item["claim_seq"] for item in await lane.items()] == [1, 2]


@pytest.mark.contract("Q-73", "C-33")
async def test_one_batch_goes_out_for_each_combination(lane: Lane) -> None:
    differences: list[dict[str, Any]] = [
        {}, {"model": "large"}, {"target_locale": "es-ES"}, {"lane": "cross_language"}, {},
    ]  # fmt: skip
    for difference in differences:
        await lane.fill(1, **difference)

    await lane.submitted()

    assert [len(batch.lines) for batch in lane.provider.batches] == [2, 1, 1, 1]
    rows = {(row["model"], row["target_locale"], row["lane"]): row["item_count"] for row in await lane.batches()}
    assert rows == {
        ("small", "", "default"): 2,
        ("large", "", "default"): 1,
        ("small", "es-ES", "default"): 1,
        ("small", "", "cross_language"): 1,
    }


@pytest.mark.contract("C-33")
async def test_one_artifact_goes_to_one_address(lane: Lane) -> None:
    await lane.fill(1)
    await lane.fill(1, base_url="https://eu.example")

    await lane.submitted()

    assert [row["base_url"] for row in await lane.batches()] == ["", "https://eu.example"]


@pytest.mark.contract("A-56", "A-58", "L-50")
async def test_a_batch_mixes_homes_and_each_line_holds_one_users_text(lane: Lane) -> None:
    canaries = [f"canary-{n}-of-home-{n % 2}" for n in range(4)]
    for canary in canaries:
        await lane.fill(1, home_id=canary[-6:], text=canary)

    await lane.submitted()

    (taken,) = lane.provider.batches
    for line, canary in zip(taken.lines, canaries, strict=True):
        assert [c for c in canaries if c.encode() in line] == [canary]


async def test_a_batch_holds_no_more_than_its_provider_takes(make_lane: MakeLane) -> None:
    lane = await make_lane(limits=BatchLimits(items=4, body_bytes=100_000, window=timedelta(hours=24)))
    await lane.fill(10)

    await lane.submitted()

    assert [len(batch.lines) for batch in lane.provider.batches] == [4, 4, 2]
    assert [row["item_count"] for row in await lane.batches()] == [4, 4, 2]
    assert await lane.statuses() == {"batch_submitted": 10}


async def test_a_batch_is_no_larger_than_its_provider_takes(make_lane: MakeLane) -> None:
    lane = await make_lane(limits=BatchLimits(items=100, body_bytes=400, window=timedelta(hours=24)))
    await lane.fill(6, text="x" * 50)

    await lane.submitted()

    sizes = [sum(len(line) + 1 for line in batch.lines) for batch in lane.provider.batches]
    assert len(sizes) == 3
    assert max(sizes) <= 400
    assert [row["body_bytes"] for row in await lane.batches()] == sizes


@pytest.mark.contract("C-36", "C-61")
async def test_the_intent_is_committed_before_the_provider_hears_of_anything(lane: Lane) -> None:
    seen: list[tuple[str, list[str], int]] = []

    async def look(submission: Submission) -> None:
        effects = await lane.effects()
        seen.append(((await lane.batch())["state"], [row["state"] for row in effects], len(await lane.items())))
        assert {(row["kind"], row["token"], row["holds_claim"]) for row in effects} == {
            ("batch_submission", submission.token, True)
        }

    lane.provider.before_upload = look
    await lane.fill(2)
    await lane.submitted()

    assert seen == [("building", ["intended", "intended"], 2)]
    assert [row["state"] for row in await lane.effects()] == ["done", "done"]


@pytest.mark.contract("C-05")
async def test_a_batch_has_a_deadline_of_its_own(lane: Lane) -> None:
    await lane.fill(1)

    await lane.submitted()

    batch = await lane.batch()
    assert batch["state"] == "submitted"
    assert batch["deadline_at"] - batch["submitted_at"] == timedelta(hours=25)


@pytest.mark.contract("Q-82")
async def test_with_nothing_pending_the_submitter_is_skipped(lane: Lane) -> None:
    dispatched = await lane.submit()

    assert dispatched.skipped
    assert await lane.owner.fetch("select function, reason from penstock.skips") == [(SUBMITTER, NOTHING_PENDING)]
    assert lane.provider.asked == []


@pytest.mark.contract("Q-76")
async def test_each_submitted_job_has_its_own_audit_trail(lane: Lane) -> None:
    ids = await lane.fill(2)

    await lane.submitted()

    rows = await lane.owner.fetch("select job_id, to_status from penstock.job_events order by event_id")
    trails: dict[UUID, list[str]] = {job_id: [] for job_id in ids}
    for row in rows:
        trails[row["job_id"]].append(row["to_status"])
    assert list(trails.values()) == [["queued", "processing", "batch_submitted"]] * 2


async def test_no_text_of_a_user_is_stored_with_a_batch(lane: Lane) -> None:
    await lane.fill(1, text="canary text")

    await lane.submitted()

    for table in ("batches", "batch_items", "effects", "effect_attempts", "runs", "alerts"):
        rows = await lane.owner.fetch(f"select t::text from penstock.{table} as t")
        assert not any("canary" in row["t"] for row in rows)
