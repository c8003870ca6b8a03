"""The sweep: marks are confirmed, broken ones are found and repaired, doubts are settled (C-43)."""

from __future__ import annotations

import asyncpg
import pytest

from penstock import Failed, FailureClass
from penstock.apps.review import deliveries, sweep
from penstock.contract.claims import Trigger
from tests.apps.review.notify.channel import BY_ID, NOTHING
from tests.apps.review.notify.conftest import ADA, BOB, EVE, Post


async def told(post: Post, *to: str) -> None:
    """A review that has ended well."""
    review = await post.review(*to)
    await post.work()
    assert await post.status(review) == "completed"


async def break_order(post: Post, address: str = ADA) -> str:
    """Its provider knows nothing of it, and the row says that it was sent."""
    token = str((await post.row(address))["token"])
    del post.mail.delivered[token]
    return token


@pytest.mark.contract("C-43")
async def test_what_its_provider_knows_is_confirmed_once_and_not_asked_about_again(post: Post) -> None:
    await told(post, ADA, BOB)
    await post.sweep()
    rows = await post.owner.fetch("select provider_confirmed_at, status from review.deliveries")
    assert all(row["provider_confirmed_at"] is not None and row["status"] == "sent" for row in rows)
    await post.sweep()
    assert len(post.mail.looked_up) == 2
    assert await post.attempts("lookup") == [("lookup", "found")] * 2


@pytest.mark.contract("C-43")
async def test_a_message_of_this_minute_is_not_asked_about_yet(post: Post) -> None:
    await told(post, ADA)
    await post.harness.pass_time(seconds=50)
    async with post.office.connection() as db:
        assert (await sweep.reconcile(db, post.office.channels, limit=10)).asked == 0
        await post.harness.pass_time(seconds=11)
        assert (await sweep.reconcile(db, post.office.channels, limit=10)).confirmed == 1


@pytest.mark.contract("N-27", "N-28", "N-29", "N-30")
async def test_a_mark_without_a_send_is_found_cleared_and_sent_once_with_one_alert(post: Post) -> None:
    await told(post, ADA, BOB)
    token = await break_order(post)
    post.mail.sent.clear()
    await post.sweep()
    row = await post.row()
    assert (row["notified_at"], row["notification_id"], row["status"]) == (None, None, "pending")
    assert await post.alerts() == ["ordering_violation"]
    assert await post.owner.fetchval("select state from penstock.effects where token = $1", token) == "abandoned"
    await post.finish()
    assert post.mail.sent == [(ADA, token, post.mail.sent[0][2])]
    assert (await post.row())["status"] == "sent"
    assert post.mail.delivered[token] == 1
    jobs = await post.owner.fetch("select idempotency_key, status from penstock.jobs order by created_at")
    assert [row["status"] for row in jobs] == ["completed", "completed"]
    assert jobs[1]["idempotency_key"].endswith("#redeliver-1")


@pytest.mark.contract("N-28", "C-43")
async def test_each_time_it_is_cleared_one_more_job_sends_it_and_two_sweeps_make_no_second_one(post: Post) -> None:
    await told(post, ADA, BOB)
    for n in (1, 2):
        await break_order(post)
        await post.sweep()
        await post.sweep()
        assert await post.owner.fetchval("select count(*) from penstock.jobs") == 1 + n
        await post.finish()
    assert (await post.row())["cleared_count"] == 2
    assert sorted(post.mail.delivered.values()) == [1, 1]


@pytest.mark.contract("N-32", "C-43")
async def test_a_suspect_row_is_reconciling_first_and_every_send_of_it_is_refused(post: Post) -> None:
    await told(post, ADA)
    await break_order(post)
    row = await post.row()
    async with post.office.connection() as db:
        assert await deliveries.suspect(db, row["delivery_id"])
        assert not await deliveries.suspect(db, row["delivery_id"])  # one alert
        assert (await post.row())["status"] == "reconciling"
        with pytest.raises(asyncpg.PostgresError, match="is not sent"):
            await db.execute("update review.deliveries set send_count = send_count + 1")
    await post.set(notified_at="null")
    async with post.office.connection() as db:
        with pytest.raises(asyncpg.PostgresError, match="is reconciling and is not sent"):
            await db.execute("update review.deliveries set send_count = send_count + 1")
    assert await post.alerts() == ["ordering_violation"]


@pytest.mark.contract("N-32")
async def test_a_job_that_meets_a_reconciling_row_sends_nothing(post: Post) -> None:
    review = await post.review(ADA, BOB)
    post.mail.script.extend([Failed(FailureClass.NETWORK_TIMEOUT), "delivered"])
    await post.work()
    await post.set(ADA, status="'reconciling'")
    post.mail.sent.clear()
    await post.retry()
    assert post.mail.sent == []
    assert await post.status(review) == "failed"


@pytest.mark.contract("N-30", "N-32")
async def test_a_sweep_that_was_cut_off_after_the_alert_is_finished_by_the_next_one(post: Post) -> None:
    await told(post, ADA)
    await break_order(post)
    async with post.office.connection() as db:
        await deliveries.suspect(db, (await post.row())["delivery_id"])
    await post.sweep()
    await post.finish()
    assert (await post.row())["status"] == "sent"
    assert await post.alerts() == ["ordering_violation"]


@pytest.mark.contract("C-43", "N-28")
@pytest.mark.parametrize(
    "deaf",
    [
        Failed(FailureClass.AUTH_DENIED),
        Failed(FailureClass.NOT_FOUND),
        Failed(FailureClass.UPSTREAM_5XX),
        TimeoutError(),
    ],
    ids=str,
)
async def test_absence_is_believed_of_an_authenticated_not_found_and_of_nothing_less(
    post: Post, deaf: Exception
) -> None:
    await told(post, ADA)
    await break_order(post)
    post.mail.deaf = deaf
    await post.sweep()
    row = await post.row()
    assert (row["status"], row["notified_at"] is not None) == ("sent", True)
    assert await post.alerts() == []
    assert len(await post.attempts("lookup")) == 1


@pytest.mark.contract("C-43")
async def test_a_channel_without_a_lookup_is_never_swept(post: Post) -> None:
    await told(post, ADA)
    post.mail.settles = NOTHING
    await break_order(post)
    await post.sweep()
    assert post.mail.looked_up == []
    assert (await post.row())["status"] == "sent"


@pytest.mark.contract("C-43")
async def test_a_channel_that_does_not_answer_is_asked_once_in_a_sweep_and_others_go_on(post: Post) -> None:
    review = await post.review(ADA, BOB, ("webhook", "https://hooks.example.org/r"))
    await post.work()
    assert await post.status(review) == "completed"
    post.mail.deaf = Failed(FailureClass.RATE_LIMITED)
    await post.sweep()
    assert (len(post.mail.looked_up), len(post.hook.looked_up)) == (1, 1)


@pytest.mark.contract("C-45", "N-26")
@pytest.mark.parametrize(("there", "status"), [(True, "sent"), (False, "failed")])
async def test_a_sweep_settles_what_a_dead_job_has_left_in_doubt(post: Post, there: bool, status: str) -> None:
    await post.review(ADA, max_attempts=1)
    post.mail.script.append("lost" if there else Failed(FailureClass.NETWORK_TIMEOUT))
    post.mail.deaf = Failed(FailureClass.UPSTREAM_5XX)
    await post.work()
    assert (await post.row())["status"] == "reconciling"
    post.mail.deaf = None
    await post.sweep()
    row = await post.row()
    assert row["status"] == status
    assert row["reconciled_at"] is not None
    state = await post.owner.fetchval("select state from penstock.effects")
    assert state == ("done" if there else "abandoned")


@pytest.mark.contract("C-43")
async def test_what_has_only_an_id_lookup_is_asked_about_by_its_id(post: Post) -> None:
    post.mail.settles = BY_ID
    await told(post, ADA)
    await post.sweep()
    row = await post.row()
    assert post.mail.looked_up == [(row["token"], row["notification_id"])]
    assert row["provider_confirmed_at"] is not None


@pytest.mark.contract("C-43", "N-30")
async def test_the_sweep_is_a_function_of_the_application_with_its_counts(post: Post) -> None:
    await told(post, ADA, BOB, EVE)
    await break_order(post, EVE)
    app = post.harness.app
    app.functions.add(sweep.reconcile_function(post.office.channels, 60))
    done = await app.run_function(sweep.FUNCTION, trigger=Trigger.SCHEDULE)
    assert done.skipped  # nothing is a minute old
    await post.harness.pass_time(minutes=2)
    done = await app.run_function(sweep.FUNCTION, trigger=Trigger.SCHEDULE)
    assert done.run is not None
    assert (done.run.claimed, done.run.succeeded, done.run.requeued) == (3, 2, 1)
