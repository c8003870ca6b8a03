"""A send that may have happened: read again, settled as far as the channel can, and only then repeated (C-42)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Failed, FailureClass
from penstock.apps.review import deliveries
from penstock.apps.review.ledger import DeliveryLedger
from penstock.channels.port import Settles, WhenUncertain
from tests.apps.review.notify.channel import BY_ID, LOOKUP, NOTHING, REPLAY, certain
from tests.apps.review.notify.conftest import ADA, BOB, EVE, Post


@pytest.mark.contract("C-42", "N-16")
async def test_a_first_send_costs_no_lookup(post: Post) -> None:
    await post.review(ADA)
    await post.work()
    assert post.events == [f"send {(await post.row())['token']}"]
    assert (await post.row())["send_count"] == 1


@pytest.mark.contract("N-16", "C-42")
async def test_with_neither_mark_nor_send_a_retry_sends_once_under_the_same_token(post: Post) -> None:
    review = await post.review(ADA)
    post.mail.script.append(certain(FailureClass.NETWORK_RESET))  # it never left
    await post.work()
    row = await post.row()
    assert (row["notified_at"], row["notification_id"], row["send_count"]) == (None, None, 0)
    await post.retry()
    assert await post.status(review) == "completed"
    assert post.mail.looked_up == []
    assert [token for _, token, _ in post.mail.sent] == [row["token"]] * 2
    assert post.mail.delivered == {row["token"]: 1}


@pytest.mark.contract("N-17")
@pytest.mark.parametrize("there", [True, False])
async def test_an_id_without_a_time_is_looked_up_by_that_id_before_anything_is_sent(post: Post, there: bool) -> None:
    post.mail.settles = BY_ID
    review = await post.review(ADA)
    post.mail.script.append(certain(FailureClass.NETWORK_RESET))
    await post.work()
    await post.set(notification_id="'m-17'")
    token = (await post.row())["token"]
    post.mail.delivered[token] = int(there)
    post.events.clear()
    await post.retry()
    assert await post.status(review) == "completed"
    assert post.mail.looked_up == [(token, "m-17")]
    assert post.events == [f"look_up {token}"] + ([] if there else [f"send {token}"])
    assert post.mail.delivered == {token: 1}
    assert (await post.row())["notified_at"] is not None


@pytest.mark.contract("N-23", "N-24", "N-25")
async def test_a_mail_whose_mark_failed_looks_unsent_and_is_found_and_filled_in_without_a_second_one(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    review = await post.review(ADA)

    async def broken(*_: object, **__: object) -> None:
        raise Failed(FailureClass.NETWORK_RESET)

    with monkeypatch.context() as patched:
        patched.setattr(deliveries, "mark", broken)
        await post.work()
    row = await post.row()
    assert (row["notified_at"], row["notification_id"], row["status"], row["send_count"]) == (None, None, "pending", 1)
    assert await post.owner.fetchval("select state from penstock.effects") == "intended"  # not marked either
    await post.retry()
    row = await post.row()
    assert await post.status(review) == "completed"
    assert post.events == [f"send {row['token']}", f"look_up {row['token']}"]
    assert (row["notification_id"], row["status"]) == (post.mail.receipt(row["token"]).notification_id, "sent")
    assert row["notified_at"] == row["provider_confirmed_at"] == row["reconciled_at"]
    assert post.mail.delivered == {row["token"]: 1}


@pytest.mark.contract("C-42")
@pytest.mark.parametrize(
    ("settles", "calls"),
    [
        (LOOKUP, ["send", "look_up"]),
        (REPLAY, ["send", "send"]),
        (LOOKUP | REPLAY, ["send", "look_up"]),
        (NOTHING, ["send"]),
    ],
)
async def test_a_lost_reply_is_settled_by_what_the_channel_declares_and_never_doubled(
    post: Post, settles: frozenset[Settles], calls: list[str]
) -> None:
    post.mail.settles, post.mail.window = settles, timedelta(hours=23)
    await post.review(ADA)
    post.mail.script.append("lost")
    await post.work()
    await post.retry()
    assert [event.partition(" ")[0] for event in post.events] == calls
    assert list(post.mail.delivered.values()) == [1]
    assert (await post.row())["status"] == ("sent" if settles else "reconciling")
    assert (await post.row())["promise"] == "at_most_once"


@pytest.mark.contract("C-42")
async def test_outside_its_window_a_key_settles_nothing_and_the_mail_is_held(post: Post) -> None:
    post.mail.settles, post.mail.window = REPLAY, timedelta(hours=23)
    await post.review(ADA)
    post.mail.script.append("lost")
    await post.work()
    await post.harness.pass_time(hours=23)
    await post.retry()
    assert len(post.mail.sent) == 1
    assert (await post.row())["status"] == "reconciling"


@pytest.mark.contract("C-42")
async def test_a_refused_replay_leaves_the_first_send_in_doubt_and_its_window_running(post: Post) -> None:
    post.mail.settles, post.mail.window = REPLAY, timedelta(hours=23)
    await post.review(ADA)
    post.mail.script.extend(["lost", certain(FailureClass.RATE_LIMITED)])
    await post.work()
    await post.retry()
    assert (await post.row())["send_count"] == 1  # the second has certainly not happened, and says nothing of the first
    await post.harness.pass_time(hours=23)
    await post.retry()
    assert len(post.mail.sent) == 2
    assert (await post.row())["status"] == "reconciling"


@pytest.mark.contract("C-42", "N-25")
async def test_where_nothing_can_be_found_out_a_second_one_goes_only_where_that_is_the_policy_and_the_row_says_so(
    post: Post,
) -> None:
    post.mail.settles, post.mail.when_uncertain = NOTHING, WhenUncertain.SEND_AGAIN
    review = await post.review(ADA)
    post.mail.script.append("lost")
    await post.work()
    await post.retry()
    row = await post.row()
    assert await post.status(review) == "completed"
    assert (row["promise"], row["status"]) == ("at_least_once", "sent")
    assert post.mail.delivered == {row["token"]: 2}  # the receiver knows it by its id
    assert await post.attempts() == [("send", "NETWORK_TIMEOUT"), ("send", "sent")]


@pytest.mark.contract("C-42", "N-24")
@pytest.mark.parametrize("error_class", [FailureClass.UPSTREAM_5XX, FailureClass.AUTH_DENIED, FailureClass.NOT_FOUND])
async def test_a_lookup_that_fails_sends_nothing_and_the_attempt_is_retried(
    post: Post, error_class: FailureClass
) -> None:
    review = await post.review(ADA)
    post.mail.script.append("lost")
    await post.work()
    post.mail.deaf = Failed(error_class)
    await post.retry()
    assert len(post.mail.sent) == 1
    job = await post.job(review)
    assert (job["status"], job["last_error_code"]) == ("queued", "UPSTREAM_5XX")
    post.mail.deaf = None
    await post.retry()
    assert await post.status(review) == "completed"
    assert list(post.mail.delivered.values()) == [1]
    assert await post.attempts("lookup") == [("lookup", str(error_class)), ("lookup", "found")]


@pytest.mark.contract("C-42", "C-45")
async def test_one_that_is_held_stops_no_other_and_its_job_waits_for_a_person(post: Post) -> None:
    post.mail.settles = NOTHING
    review = await post.review(ADA, BOB, EVE)
    post.mail.script.extend(["lost", certain(FailureClass.NETWORK_RESET)])
    await post.work()
    await post.retry()
    assert await post.statuses() == {ADA: "reconciling", BOB: "sent", EVE: "sent"}
    assert await post.status(review) == "failed"
    letter = await post.letter()
    assert (letter["reason"], letter["stage"]) == ("integrity", "notify")
    assert set(await post.alerts()) == {"delivery_unsettled", "effect_uncertain"}
    assert await post.owner.fetchval("select count(*) from penstock.effects where state = 'uncertain'") == 1


@pytest.mark.contract("N-14", "N-38", "C-61")
async def test_the_row_decides_even_when_the_engines_ledger_has_forgotten_the_send(post: Post) -> None:
    await post.review(ADA)
    post.mail.script.append("lost")
    await post.work()
    await post.owner.execute("delete from penstock.effects")
    await post.retry()
    row = await post.row()
    assert post.events == [f"send {row['token']}", f"look_up {row['token']}"]
    assert row["status"] == "sent"


@pytest.mark.contract("N-37", "C-61")
async def test_a_zombie_marks_neither_the_effect_nor_the_row(post: Post) -> None:
    review = await post.review(ADA)

    async def taken_over() -> None:
        await post.owner.execute("update penstock.jobs set claim_seq = claim_seq + 1, claimed_by = 'heir'")
        await post.owner.execute("update penstock.effects set claim_seq = claim_seq + 1")

    post.mail.after = taken_over
    await post.work()
    row = await post.row()
    assert (row["notified_at"], row["status"], row["send_count"]) == (None, "pending", 1)
    assert await post.owner.fetchval("select state from penstock.effects") == "intended"
    assert await post.status(review) == "processing"


@pytest.mark.contract("C-42", "N-20")
async def test_an_intent_whose_reply_was_lost_is_counted_once_and_not_taken_for_an_earlier_send(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    review = await post.review(ADA)
    intend, calls = DeliveryLedger.intend, list[object]()

    async def lost(*given: Any, **named: Any) -> Any:
        calls.append(named["nonce"])
        intent = await intend(*given, **named)
        if len(calls) == 1:
            raise ConnectionResetError
        return intent

    monkeypatch.setattr(DeliveryLedger, "intend", lost)
    await post.work()
    row = await post.row()
    assert len(calls) == 2
    assert calls[0] == calls[1]
    assert post.events == [f"send {row['token']}"]
    assert (row["send_count"], row["status"], await post.status(review)) == (1, "sent", "completed")
    assert await post.attempts() == [("send", "sent")]


@pytest.mark.contract("N-15", "N-38")
async def test_a_row_that_somebody_marks_in_the_meantime_is_not_sent(post: Post) -> None:
    review = await post.review(ADA, BOB)

    async def by_hand() -> None:
        await post.set(BOB, notified_at="penstock.now()", notification_id="'by hand'")

    post.mail.before = by_hand  # while the first one is sent
    await post.work()
    assert [address for address, _, _ in post.mail.sent] == [ADA]
    assert (await post.row(BOB))["notification_id"] == "by hand"
    assert await post.status(review) == "completed"


@pytest.mark.contract("N-15")
async def test_no_statement_begins_a_send_of_a_row_that_is_marked(post: Post) -> None:
    await post.review(ADA)
    post.mail.script.append(certain(FailureClass.NETWORK_RESET))
    await post.work()
    await post.set(notified_at="penstock.now()")
    with pytest.raises(asyncpg.PostgresError, match="is marked and is not sent"):
        await post.set(send_count="send_count + 1")


@pytest.mark.contract("C-61", "N-36")
async def test_of_two_jobs_for_one_review_one_sends_and_the_other_waits(post: Post) -> None:
    review = await post.review(ADA, BOB)
    post.mail.script.append("lost")
    await post.work()
    marked = (await post.row(BOB))["delivery_id"]
    assert await deliveries.suspect(post.owner, marked)
    assert await deliveries.settle(post.owner, marked, happened=False, who="sweep", proven=True) == "pending"
    await post.owner.execute(  # the redelivery that is due, while the review's own job goes on
        "with other as (insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, priority, "
        "max_attempts, audited, staged, job_type, stage, idempotency_key, payload) select gen_random_uuid(), "
        "created_at, updated_at, run_at, true, 0, 5, false, true, job_type, stage, idempotency_key || '#redeliver-1', "
        "payload from penstock.jobs returning job_id) "
        "update penstock.effects set job_id = other.job_id, claim_seq = 1 from other "
        "where token = (select token from review.deliveries where recipient = $1)",
        ADA,
    )
    await post.owner.execute(
        "update penstock.jobs set status = 'processing', claim_seq = 1, claimed_by = 'other', "
        "claimed_at = penstock.now(), lease_expires_at = penstock.now() + interval '1 hour' "
        "where idempotency_key like '%#redeliver-1'"
    )
    post.mail.sent.clear()
    await post.retry()
    assert [address for address, _, _ in post.mail.sent] == [BOB]
    job = await post.job(review)
    assert (job["status"], job["attempt_count"]) == ("queued", 1)  # put off, not charged
