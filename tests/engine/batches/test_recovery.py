"""Submissions in doubt are settled by asking, before anything else, and nobody pays twice (C-36)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from uuid import UUID

import pytest

from penstock import EffectUncertain, Failed, FailureClass
from penstock.engine.batches import sending
from penstock.engine.batches.recovery import Recovered, recover
from penstock.providers.port import Submission
from penstock.store import claims, submissions
from penstock.store.submissions import Taken
from tests.engine.batches.conftest import TYPE, Lane

LOST_REPLY = Failed(FailureClass.NETWORK_TIMEOUT)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


async def recovery(lane: Lane, name: str = "recovery-1") -> Recovered:
    """One recovery of the lane."""
    return await recover(lane.app.pool, lane.app.adapters, TYPE, recovery=name)


async def in_doubt(lane: Lane, count: int = 2, *, created: bool) -> list[UUID]:
    """Jobs of one submission whose outcome nobody knows."""
    (lane.provider.lose_create if created else lane.provider.refuse_create).append(LOST_REPLY)
    ids = await lane.fill(count)
    await lane.submitted()
    return ids


@pytest.mark.contract("C-36", "C-61")
async def test_a_batch_whose_reply_was_lost_is_found_and_not_sent_again(lane: Lane) -> None:
    ids = await in_doubt(lane, created=True)
    assert (await lane.batch())["state"] == "uncertain"

    await lane.submitted()

    assert lane.provider.count("create") == 1
    rows = [await lane.job(job_id) for job_id in ids]
    assert [(row["status"], row["provider_batch_id"]) for row in rows] == [("batch_submitted", "pb_1")] * 2
    batch = await lane.batch()
    assert (batch["state"], batch["provider_batch_id"], batch["collector"]) == ("submitted", "pb_1", None)
    assert {row["state"] for row in await lane.effects()} == {"done"}


@pytest.mark.contract("C-36")
async def test_only_a_proven_absence_gives_the_jobs_back_and_charges_nothing(lane: Lane) -> None:
    ids = await in_doubt(lane, created=False)

    assert await recovery(lane) == Recovered(waiting=1)  # a fresh batch may still be missing from the list
    assert {row["status"] for row in await lane.jobs()} == {"processing"}
    await lane.pass_time(minutes=6)
    assert await recovery(lane) == Recovered(absent=1)

    rows = [await lane.job(job_id) for job_id in ids]
    assert [(row["status"], row["attempt_count"], row["ready"]) for row in rows] == [("queued", 0, True)] * 2
    assert (await lane.batch())["state"] == "abandoned"
    await lane.submitted()
    assert await lane.statuses() == {"batch_submitted": 2}
    assert len(lane.provider.live) == 1


@pytest.mark.contract("C-36")
async def test_a_batch_that_is_slow_to_appear_is_waited_for(lane: Lane) -> None:
    lane.provider.hide = True
    await in_doubt(lane, created=True)
    await recovery(lane)
    lane.provider.show_all()
    await lane.pass_time(minutes=6)

    assert await recovery(lane) == Recovered(found=1)

    assert len(lane.provider.live) == 1
    assert await lane.statuses() == {"batch_submitted": 2}


@pytest.mark.contract("C-36")
async def test_of_two_batches_of_one_submission_one_is_kept_and_one_cancelled(lane: Lane) -> None:
    async def twice(submission: Submission) -> None:
        lane.provider.take(submission)

    lane.provider.after_create = twice
    await in_doubt(lane, created=True)

    await recovery(lane)

    assert [batch.cancelled for batch in lane.provider.batches] == [False, True]
    assert (await lane.batch())["provider_batch_id"] == "pb_1"
    assert len(await lane.alerts("batch_found_twice")) == 1


async def test_one_that_is_being_cancelled_is_not_the_one_to_keep(lane: Lane) -> None:
    async def twice(submission: Submission) -> None:
        lane.provider.take(submission)
        lane.provider.batches[0].cancelled = True

    lane.provider.after_create = twice
    await in_doubt(lane, created=True)

    await recovery(lane)

    assert (await lane.batch())["provider_batch_id"] == "pb_2"


async def test_a_second_batch_that_cannot_be_cancelled_leaves_everything_open(lane: Lane) -> None:
    async def twice(submission: Submission) -> None:
        lane.provider.take(submission)

    lane.provider.after_create = twice
    await in_doubt(lane, created=True)
    lane.provider.refuse_cancel = ConnectionResetError()

    assert await recovery(lane) == Recovered(waiting=1)
    lane.provider.refuse_cancel = None
    assert await recovery(lane) == Recovered(found=1)

    assert len(lane.provider.live) == 1


@pytest.mark.contract("C-36")
@pytest.mark.parametrize(
    "error", [Failed(FailureClass.AUTH_DENIED), ConnectionResetError(), TimeoutError(), ValueError("what?")]
)
async def test_while_the_provider_cannot_be_asked_nothing_changes(lane: Lane, error: Exception) -> None:
    ids = await in_doubt(lane, created=True)
    lane.provider.refuse_find = error
    for _ in range(3):
        assert await recovery(lane) == Recovered(waiting=1)
        await lane.pass_time(minutes=15)

    assert [(await lane.job(job_id))["status"] for job_id in ids] == ["processing"] * 2
    assert (await lane.batch())["state"] == "uncertain"
    lane.provider.refuse_find = None
    assert await recovery(lane) == Recovered(found=1)


async def test_a_doubt_that_lasts_is_told_to_a_person_once(lane: Lane) -> None:
    await in_doubt(lane, created=True)
    lane.provider.refuse_find = Failed(FailureClass.AUTH_DENIED)
    await recovery(lane)
    assert await lane.alerts("batch_submission_unsettled") == []

    await lane.pass_time(hours=2)
    await recovery(lane)
    await recovery(lane)

    (alert,) = await lane.alerts("batch_submission_unsettled")
    assert json.loads(alert["subject"])["code"] == "AUTH_DENIED"


@pytest.mark.contract("C-66")
async def test_a_provider_that_shows_only_ended_batches_is_waited_for(lane: Lane) -> None:
    await in_doubt(lane, created=True)
    lane.provider.refuse_find = EffectUncertain("a batch of that time is still running")
    for _ in range(20):
        await lane.pass_time(hours=1)
        assert await recovery(lane) == Recovered(waiting=1)

    batch = await lane.batch()
    assert (batch["state"], batch["last_error_code"]) == ("uncertain", "NETWORK_TIMEOUT")
    assert await lane.alerts("batch_submission_unsettled") == []
    lane.provider.refuse_find = None
    assert await recovery(lane) == Recovered(found=1)


@pytest.mark.contract("C-36")
async def test_no_reaper_touches_a_job_with_an_open_intent(lane: Lane) -> None:
    ids = await in_doubt(lane, created=True)
    lane.provider.refuse_find = ConnectionResetError()
    await lane.pass_time(hours=5)

    assert await claims.reap(lane.owner) == []
    await lane.submit()

    rows = [await lane.job(job_id) for job_id in ids]
    assert [(row["status"], row["attempt_count"], row["claim_seq"]) for row in rows] == [("processing", 0, 1)] * 2


async def test_two_recoveries_at_once_ask_once(lane: Lane) -> None:
    await in_doubt(lane, created=True)

    done = await asyncio.gather(*(recovery(lane, f"recovery-{n}") for n in range(4)))

    assert sum(one.found for one in done) == 1
    assert lane.provider.count("find") == 1


async def test_a_recovery_that_died_is_followed_by_the_next(lane: Lane) -> None:
    await in_doubt(lane, created=True)
    await submissions.adopt(lane.owner, TYPE, recovery="dead", lease=timedelta(minutes=10), limit=10)
    assert await recovery(lane) == Recovered()

    await lane.pass_time(minutes=11)

    assert await recovery(lane) == Recovered(found=1)


async def test_a_submission_in_somebodys_hand_is_left_there(lane: Lane) -> None:
    seen: list[Recovered] = []

    async def meanwhile(_: Submission) -> None:
        seen.append(await recovery(lane))

    lane.provider.before_create = meanwhile
    await lane.fill(1)
    await lane.submitted()

    assert seen == [Recovered()]
    assert await lane.statuses() == {"batch_submitted": 1}


@pytest.mark.contract("C-31", "C-36")
async def test_a_submitter_whose_submission_was_taken_over_cannot_mark_it(lane: Lane) -> None:
    """Its leases ran out while the provider was slow; the recovery sees the batch and marks it itself."""

    async def stall(_: Submission) -> None:
        await lane.pass_time(hours=1)
        lane.provider.refuse_find = ConnectionResetError()
        await submissions.adopt(lane.owner, TYPE, recovery="recovery-9", lease=HOUR, limit=10)

    lane.provider.after_create = stall
    await lane.fill(2)
    run = await lane.submitted()

    assert (run.succeeded, run.lost) == (0, 2)
    assert await lane.statuses() == {"processing": 2}
    lane.provider.refuse_find = None
    await lane.pass_time(hours=2)
    assert await recovery(lane) == Recovered(found=1)
    assert len(lane.provider.live) == 1


@pytest.mark.contract("C-36")
async def test_a_submitter_that_wakes_up_before_the_create_does_not_create(lane: Lane) -> None:
    async def stall(_: Submission) -> None:
        await lane.pass_time(hours=1)
        await recovery(lane, "recovery-8")
        await lane.pass_time(minutes=10)
        await recovery(lane, "recovery-9")

    lane.provider.before_upload = stall
    await lane.fill(2)
    await lane.submitted()

    assert lane.provider.batches == []
    assert await lane.statuses() == {"queued": 2}


@pytest.mark.contract("C-36")
async def test_a_batch_that_a_stalled_submitter_made_too_late_is_cancelled(lane: Lane) -> None:
    async def stall(_: Submission) -> None:
        await lane.pass_time(hours=1)
        await recovery(lane, "recovery-8")
        await lane.pass_time(minutes=10)
        await recovery(lane, "recovery-9")

    lane.provider.before_create = stall
    await lane.fill(2)
    await lane.submitted()
    assert await lane.statuses() == {"queued": 2}

    assert [batch.cancelled for batch in lane.provider.batches] == [True]
    assert len(await lane.alerts("batch_orphan_cancelled")) == 1
    lane.provider.before_create = None
    await lane.submitted()
    assert len(lane.provider.live) == 1
    assert await lane.statuses() == {"batch_submitted": 2}


@pytest.mark.contract("C-36")
async def test_a_batch_that_appears_after_it_was_given_up_is_found_and_cancelled(lane: Lane) -> None:
    lane.provider.hide = True
    await in_doubt(lane, created=True)
    await recovery(lane)
    await lane.pass_time(minutes=6)
    assert await recovery(lane) == Recovered(absent=1)
    lane.provider.hide = False
    await lane.submitted()
    lane.provider.show_all()

    await lane.pass_time(minutes=10)
    assert await recovery(lane) == Recovered(orphans=1)

    assert [batch.cancelled for batch in lane.provider.batches] == [True, False]
    assert (await lane.batches())[0]["state"] == "abandoned"
    assert await lane.statuses() == {"batch_submitted": 2}


async def test_what_was_given_up_is_watched_for_a_day(lane: Lane) -> None:
    await in_doubt(lane, created=False)
    await recovery(lane)
    await lane.pass_time(minutes=6)
    await recovery(lane)
    asked = lane.provider.count("find")

    for _ in range(48):
        await lane.pass_time(hours=1)
        await recovery(lane)

    assert 3 <= lane.provider.count("find") - asked <= 10
    assert (await lane.batch())["next_poll_at"] is None


@pytest.mark.parametrize("step", ["intend", "mark"])
async def test_a_write_whose_reply_was_lost_is_written_once(
    lane: Lane, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[object] = []
    write = getattr(submissions, step)

    async def lose_the_first_reply(*arguments: object, **named: object) -> object:
        written.append(await write(*arguments, **named))
        if len(written) == 1:
            raise ConnectionResetError
        return written[-1]

    monkeypatch.setattr(submissions, step, lose_the_first_reply)
    await lane.fill(2)
    run = await lane.submitted()

    assert (run.succeeded, len(written)) == (2, 2)
    assert len(await lane.items()) == 2
    assert len(lane.provider.live) == 1
    assert await lane.statuses() == {"batch_submitted": 2}


async def test_an_id_that_another_batch_has_does_not_stop_the_lane(lane: Lane) -> None:
    await in_doubt(lane, count=1, created=True)
    await lane.fill(1)
    lane.provider.refuse_find = ConnectionResetError()
    await lane.submitted()
    lane.provider.refuse_find = None
    lane.provider.batches[0].provider_batch_id = "pb_2"  # the provider has lost its mind

    assert await recovery(lane) == Recovered(waiting=1)
    await lane.fill(1)
    await lane.submitted()

    assert await lane.statuses() == {"processing": 1, "batch_submitted": 2}


async def test_the_collector_hears_of_doubts_and_open_batches(lane: Lane) -> None:
    assert await submissions.count_open(lane.owner, TYPE) == 0
    await in_doubt(lane, created=True)

    assert await submissions.count_open(lane.owner, TYPE) == 1
    assert await submissions.count_open(lane.owner, "another") == 0


async def test_a_mark_names_whoever_has_the_submission_in_hand(lane: Lane) -> None:
    await in_doubt(lane, created=True)
    batch = await lane.batch()
    taken = Taken("pb_1", None, None, DAY, HOUR)

    marked = await submissions.mark(lane.owner, batch["batch_id"], taken, recovery="nobody")

    assert not marked.marked
    assert await lane.statuses() == {"processing": 2}


@pytest.mark.contract("C-36", "C-66")
async def test_a_create_comes_in_the_time_that_a_recovery_looks_at_or_not_at_all(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "PAUSE", -sending.LONGEST)  # whatever the upload took was too long

    await lane.fill(2)
    await lane.submitted()

    assert lane.provider.count("create") == 0
    assert [(row["status"], row["attempt_count"]) for row in await lane.jobs()] == [("queued", 0)] * 2
    assert (await lane.batch())["state"] == "abandoned"
