"""How a review stands, in the words of its contract, and whatever became of its job's row."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock import FailureClass
from penstock.engine.retention import prune
from tests.apps.review.core.conftest import World, away


@pytest.mark.contract("N-19", "C-46", "C-01")
async def test_it_is_in_progress_while_worked_on_and_retryable_failed_while_it_waits_for_a_retry(world: World) -> None:
    made = await world.create()
    seen: list[tuple[str, str]] = []

    async def look() -> None:
        review = await world.read(made)
        seen.append((review.status, review.stage))

    world.source.during = look
    world.source.failures.extend(away())
    await look()
    await world.harness.drain()
    await look()
    await world.harness.work_until_idle()
    await look()
    assert seen == [
        ("in_progress", "fetch"),  # accepted
        ("in_progress", "fetch"),  # a worker has it
        ("retryable_failed", "fetch"),  # it waits after a failed attempt
        ("in_progress", "fetch"),  # a worker has it again
        ("succeeded", "notify"),
    ]


@pytest.mark.contract("C-46")
async def test_a_stage_that_was_hard_to_pass_leaves_nothing_to_retry(world: World) -> None:
    made = await world.create()
    world.source.failures.extend(away(times=2))
    world.critic.failures.extend(away(FailureClass.RATE_LIMITED))
    await world.harness.drain()
    await world.harness.pass_time(timedelta(minutes=10))
    await world.harness.drain()
    await world.harness.pass_time(timedelta(minutes=10))
    await world.harness.drain()
    review = await world.read(made)
    assert (review.status, review.stage) == ("retryable_failed", "llm")
    await world.owner.execute(
        "update penstock.jobs set stage = 'notify' where job_id = $1", made.review.job_id
    )  # as a collector leaves it
    assert (await world.read(made)).status == "in_progress"


async def test_a_canceled_review_says_so(world: World) -> None:
    made = await world.create()
    await world.owner.execute("select penstock.cancel($1, 'olga', 'no more')", made.review.job_id)
    assert (await world.read(made)).status == "canceled"
    assert (await world.create("k2", review_version=2)).created


@pytest.mark.contract("N-40", "C-65")
async def test_a_review_whose_job_was_pruned_is_still_known_as_succeeded(world: World) -> None:
    made = await world.create()
    done = await world.succeed(made)
    await world.harness.pass_time(days=91)
    await prune(world.owner, world.worker.app.settings)
    assert await world.count("penstock.jobs") == 0
    assert await world.read(made) == done
    for key in ("k1", "k2"):
        again = await world.create(key)
        assert (again.created, again.review) == (False, done)
    assert await world.count("penstock.jobs") == 0


async def test_a_review_whose_job_was_canceled_and_pruned_is_not_called_a_success(world: World) -> None:
    made = await world.create()
    await world.owner.execute("select penstock.cancel($1, 'olga', 'no more')", made.review.job_id)
    await world.harness.pass_time(days=91)
    await prune(world.owner, world.worker.app.settings)
    assert await world.count("penstock.jobs") == 0
    assert (await world.read(made)).status in ("canceled", "dead_letter")
    assert (await world.create("k2", review_version=2)).created
