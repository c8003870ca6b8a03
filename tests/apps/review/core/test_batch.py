"""The critic in a batch: one part per item, the job goes on to notify when all have come back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from penstock.apps.review.models import ReviewArgs
from penstock.apps.review.repository import load_parts
from penstock.contract.calls import Answer, Usage
from penstock.contract.claims import Trigger
from penstock.contract.errors import Failed, Snooze
from penstock.emulator import Emulator
from penstock.emulator.clock import Clock
from penstock.store import clock
from penstock.store.roles import ORCHESTRATOR, WORKER
from tests.apps.review.core.conftest import TO, Critic, FakeChannel, FakeSource, diff, side
from tests.support.emulator import BATCH_SECONDS

SUBMITTER, COLLECTOR = "review_processing_batch_submitter", "review_processing_batch_collector"
FILES = ("shop.py", "till.py")


class Lane:
    """Both sides, with a batch at the emulated provider between them."""

    def __init__(self, dsn: str, role_dsn: Callable[[str], str], emulator: Emulator) -> None:
        self.source, self.channel, self.emulator = FakeSource(), FakeChannel(), emulator
        self.source.raw = diff(*FILES, words="y" * 1100)
        given = {
            "review_execution": "batch", "review_model_url": emulator.openai_base_url, "openai_api_key": "any",
            "review_part_tokens": 500, "grace_seconds": 5,
        }  # fmt: skip
        self.orchestrator = side(role_dsn(ORCHESTRATOR), self.source, None, self.channel, **given)
        self.worker = side(role_dsn(WORKER), self.source, None, self.channel, **given)
        self._dsn = dsn

    async def open(self) -> None:
        await self.orchestrator.app.open()
        await self.worker.app.open()
        await self.worker.app.sync_types()
        self.owner = await asyncpg.connect(self._dsn)

    async def close(self) -> None:
        await self.owner.close()
        await self.worker.app.close()
        await self.orchestrator.app.close()

    async def create(self) -> Any:
        made = await self.orchestrator.create_review(
            idempotency_key="k1", changelist_id="shop:4f1c2aa", recipients=[TO]
        )
        return made.review

    async def submit(self) -> None:
        await self.worker.app.run_function(SUBMITTER, trigger=Trigger.SCHEDULE)

    async def collect(self) -> None:
        self.emulator.advance(BATCH_SECONDS)
        await clock.wind(self.owner, timedelta(seconds=BATCH_SECONDS))
        await self.worker.app.run_function(COLLECTOR, trigger=Trigger.SCHEDULE)

    async def job(self) -> tuple[str, str, int]:
        row = await self.owner.fetchrow("select status, stage, attempt_count from penstock.jobs")
        assert row is not None
        return row["status"], row["stage"], row["attempt_count"]


@pytest.fixture(scope="module")
def started() -> Iterator[Emulator]:
    """One server for all of them; a batch takes a minute of a clock that only the test moves."""
    with Emulator(finish_after=BATCH_SECONDS, frozen=True) as server:
        yield server


@pytest.fixture
async def lane(dsn: str, role_dsn: Callable[[str], str], started: Emulator, log: StringIO) -> AsyncIterator[Lane]:
    """A lane whose provider knows nothing of the test before."""
    assert log.getvalue() == ""
    started.reset()
    started.world.clock = Clock(frozen=True)
    made = Lane(dsn, role_dsn, started)
    await made.open()
    yield made
    await made.close()


@pytest.mark.contract("C-05", "C-12")
async def test_the_parts_of_a_review_travel_one_by_one_and_then_everybody_is_told(lane: Lane) -> None:
    review = await lane.create()
    for number in range(1, len(FILES) + 1):
        await lane.submit()
        assert await lane.job() == ("batch_submitted", "llm", 0)
        row = await lane.owner.fetchrow("select claimed_by, lease_expires_at from penstock.jobs")
        assert row is not None
        assert row["lease_expires_at"] is None, "no reaper touches it"
        assert (await lane.orchestrator.read_review(review.review_id)).status == "in_progress"
        await lane.collect()
        assert await lane.owner.fetchval("select count(*) from review.parts") == number
        assert lane.channel.sends == 0
    assert await lane.job() == ("queued", "notify", 0), "requeued for the next stage, and no attempt is charged"
    assert (await lane.orchestrator.read_review(review.review_id)).status == "in_progress"

    await lane.submit()
    done = await lane.orchestrator.read_review(review.review_id)
    assert (done.status, len(lane.channel.sent), len(lane.source.fetched)) == ("succeeded", 1, 1)
    assert done.findings is not None
    assert {finding.file for finding in done.findings} == set(FILES)
    assert len(lane.emulator.batches) == len(FILES)


@pytest.mark.contract("E-24", "C-12")
async def test_an_item_that_failed_costs_an_attempt_of_its_stage_and_its_part_is_asked_again(lane: Lane) -> None:
    review = await lane.create()
    await lane.submit()
    lane.emulator.batches[0].plan.add("item_error", status=500)
    await lane.collect()
    assert await lane.job() == ("queued", "llm", 1)
    assert await lane.owner.fetchval("select attempts from penstock.stages where stage = 'llm'") == 1
    for _ in range(len(FILES)):
        await clock.wind(lane.owner, timedelta(minutes=6))
        await lane.submit()
        await lane.collect()
    await lane.submit()
    assert (await lane.orchestrator.read_review(review.review_id)).status == "succeeded"
    assert await lane.owner.fetchval("select array_agg(part order by part) from review.parts") == [1, 2]


async def test_an_answer_that_is_shown_twice_is_never_taken_for_that_of_the_next_part(lane: Lane) -> None:
    """As after a collector that died between keeping an answer and settling its item."""
    review = await lane.create()
    await lane.submit()
    job = await lane.owner.fetchrow("select job_id, claim_seq from penstock.jobs")
    assert job is not None
    parked: Any = SimpleNamespace(job_id=job["job_id"], claim_seq=job["claim_seq"])
    args, stages = ReviewArgs(review_id=review.review_id), lane.worker.stages
    data = {"findings": [{"file": FILES[0], "line": 2, "severity": "note", "message": "Hm.", "suggestion": None}]}
    for _ in range(2):
        with pytest.raises(Snooze):
            await stages.accept(parked, args, Answer("", data, Usage(1, 1)))
    answered = await load_parts(lane.owner, review.review_id)
    assert (set(answered.numbers), answered.dropped, len(answered.findings)) == ({1}, 0, 1)
    stranger: Any = SimpleNamespace(job_id=job["job_id"], claim_seq=job["claim_seq"] + 1)
    with pytest.raises(Failed, match="BATCH_ITEM_AMBIGUOUS"):
        await stages.accept(stranger, args, Answer("", data))


async def test_nothing_is_asked_when_every_part_has_its_answer(lane: Lane) -> None:
    lane.source.raw = b"diff --git a/logo.png b/logo.png\nBinary files a/logo.png and b/logo.png differ\n"
    review = await lane.create()
    await lane.submit()
    assert (await lane.orchestrator.read_review(review.review_id)).status == "succeeded"
    assert lane.emulator.batches == []


def test_the_same_type_is_claimed_at_once_where_its_critic_is_asked_at_once(dsn: str) -> None:
    at_once = side(dsn, FakeSource(), Critic(), FakeChannel())
    in_a_batch = side(dsn, FakeSource(), None, FakeChannel(), review_execution="batch")
    assert [one.type.policy.dispatch for one in (at_once, in_a_batch)] == ["notify", "scheduled"]
    assert at_once.type.policy.stages == in_a_batch.type.policy.stages == ("fetch", "llm", "notify")
