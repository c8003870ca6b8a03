"""How the stage ends: who is missing, what is retried, and what is looked up before anybody gives up (C-44, C-45)."""

from __future__ import annotations

import json
from datetime import timedelta

import asyncpg
import pytest

from penstock import Failed, FailureClass
from penstock.channels.registry import Channels
from penstock.settings import load_settings
from tests.apps.review.notify.channel import NOTHING, REPLAY, certain
from tests.apps.review.notify.conftest import ADA, BOB, EVE, Post

AWAY = FailureClass.UPSTREAM_5XX
REJECTED = FailureClass.RECIPIENT_REJECTED


@pytest.mark.contract("N-18", "N-19")
async def test_with_one_of_three_missing_the_job_waits_for_its_retry_and_succeeds_when_that_one_was_told(
    post: Post,
) -> None:
    seen: list[str] = []

    async def watch() -> None:
        seen.append(await post.status(review))

    post.mail.before = watch
    review = await post.review(ADA, BOB, EVE)
    post.mail.refused[BOB] = certain(AWAY)
    await post.work()
    job = await post.job(review)
    assert (job["status"], job["stage"], job["last_error_code"]) == ("queued", "notify", "UPSTREAM_5XX")
    assert await post.statuses() == {ADA: "sent", BOB: "pending", EVE: "sent"}
    post.mail.refused.clear()
    await post.retry()
    assert await post.status(review) == "completed"
    assert set(seen) == {"processing"}
    assert sorted(post.mail.delivered.values()) == [1, 1, 1]


@pytest.mark.contract("N-18")
async def test_no_statement_completes_a_job_that_has_not_told_everybody_required(post: Post) -> None:
    review = await post.review(ADA, ("smtp", BOB, False))
    post.mail.refused[ADA] = certain(AWAY)
    await post.work()
    completes = (
        "update penstock.jobs set status = 'completed', finished_at = penstock.now(), claimed_by = null, "
        "lease_expires_at = null where job_id = $1"
    )
    await post.owner.execute(
        "update penstock.jobs set status = 'processing', claimed_by = 'w', claimed_at = penstock.now(), "
        "claim_seq = claim_seq + 1, lease_expires_at = penstock.now() + interval '1 hour'"
    )
    job_id = (await post.job(review))["job_id"]
    with pytest.raises(asyncpg.PostgresError, match="has not told every required recipient"):
        await post.owner.execute(completes, job_id)
    await post.set(ADA, notified_at="penstock.now()")
    await post.owner.execute(completes, job_id)
    assert await post.status(review) == "completed"


@pytest.mark.contract("N-21")
async def test_what_passes_by_itself_is_retried_later_and_later(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    review = await post.review(ADA)
    post.mail.refused[ADA] = certain(AWAY)
    hand = await post.harness.worker()
    monkeypatch.setattr(hand.place, "random", lambda: 1.0)  # the upper bound of the jitter
    waits: list[timedelta] = []
    for _ in range(4):
        await hand.work()
        waits.append(await post.owner.fetchval("select run_at - updated_at from penstock.jobs"))
        await post.harness.pass_time(waits[-1] + timedelta(seconds=1))
    assert waits == [timedelta(seconds=s) for s in (1, 2, 4, 8)]
    assert (await post.row())["last_error_code"] == "UPSTREAM_5XX"
    await hand.work()
    assert await post.status(review) == "failed"


@pytest.mark.contract("N-21")
async def test_of_several_waits_that_providers_ask_for_the_longest_counts(post: Post) -> None:
    await post.review(ADA, BOB)
    post.mail.refused[ADA] = Failed(FailureClass.RATE_LIMITED, retry_after=timedelta(seconds=90))
    post.mail.refused[BOB] = Failed(FailureClass.RATE_LIMITED, retry_after=timedelta(seconds=30))
    await post.work()
    assert await post.owner.fetchval("select run_at - updated_at from penstock.jobs") == timedelta(seconds=90)


@pytest.mark.contract("N-22", "C-44")
@pytest.mark.parametrize(
    "error_class",
    [REJECTED, FailureClass.POLICY_REJECTED, FailureClass.NOT_FOUND, FailureClass.PAYLOAD_REJECTED],
)
async def test_one_bad_recipient_fails_alone_and_the_dead_letter_names_the_row(
    post: Post, error_class: FailureClass
) -> None:
    review = await post.review(ADA, BOB, EVE)
    post.mail.refused[ADA] = certain(error_class)
    await post.work()
    assert await post.statuses() == {ADA: "failed", BOB: "sent", EVE: "sent"}
    assert await post.status(review) == "failed"
    letter = await post.letter()
    assert (letter["stage"], letter["error_class"], letter["attempts"]) == ("notify", "RECIPIENT_REJECTED", 1)
    row = await post.row(ADA)
    assert json.loads(letter["sanitized_context"])["delivery_ids"] == [str(row["delivery_id"])]
    assert row["last_error_code"] == str(error_class)
    assert await post.alerts() == ["delivery_failed"]


@pytest.mark.contract("C-44", "N-18")
async def test_an_optional_recipient_who_cannot_be_told_does_not_hold_the_job(post: Post) -> None:
    review = await post.review(ADA, ("smtp", BOB, False), ("smtp", EVE, False))
    post.mail.refused[BOB] = certain(REJECTED)
    post.mail.refused[EVE] = certain(FailureClass.AUTH_DENIED)
    await post.work()
    assert await post.status(review) == "completed"
    assert await post.statuses() == {ADA: "sent", BOB: "failed", EVE: "failed"}
    assert await post.alerts() == ["delivery_failed", "delivery_failed"]


@pytest.mark.contract("C-44")
async def test_an_optional_recipient_is_retried_within_the_budget_and_then_given_up(post: Post) -> None:
    review = await post.review(ADA, ("smtp", BOB, False))
    post.mail.refused[BOB] = certain(AWAY)
    await post.work()
    assert await post.status(review) == "queued"
    await post.finish()
    assert await post.status(review) == "completed"
    assert await post.statuses() == {ADA: "sent", BOB: "failed"}
    assert [address for address, _, _ in post.mail.sent].count(BOB) == 5


@pytest.mark.contract("C-44", "E-07")
@pytest.mark.parametrize(
    "error_class", [FailureClass.AUTH_DENIED, FailureClass.QUOTA_EXHAUSTED, FailureClass.CONFIG_INVALID]
)
async def test_what_is_wrong_with_a_channel_is_not_the_recipients_fault(post: Post, error_class: FailureClass) -> None:
    review = await post.review(ADA, ("webhook", "https://hooks.example.org/r"))
    post.mail.refused[ADA] = certain(error_class)
    await post.work()
    assert await post.statuses() == {ADA: "pending", "https://hooks.example.org/r": "sent"}
    assert (await post.letter())["error_class"] == str(error_class)
    post.mail.refused.clear()
    await post.replay()
    await post.work()
    assert await post.status(review) == "completed"
    assert list(post.hook.delivered.values()) == [1]


@pytest.mark.contract("C-44", "N-07")
async def test_a_channel_that_is_switched_off_stops_no_other_and_writes_its_message_when_it_is_on(post: Post) -> None:
    review = await post.review(ADA, ("webhook", "https://hooks.example.org/r"))
    mail, post.office.channels = post.mail, Channels(load_settings())
    post.office.channels.use("webhook", post.hook)
    await post.work()
    row = await post.row(ADA)
    assert (row["status"], row["payload"], row["last_error_code"]) == ("pending", None, "CONFIG_INVALID")
    assert list(post.hook.delivered.values()) == [1]
    post.office.channels.use("smtp", mail)
    await post.replay()
    await post.work()
    assert await post.status(review) == "completed"
    assert (await post.row(ADA))["payload"] == mail.sent[0][2]


@pytest.mark.contract("N-26", "C-45")
@pytest.mark.parametrize(
    ("delivered", "deaf", "status", "ends"),
    [
        (True, None, "sent", "completed"),
        (False, None, "failed", "failed"),
        (False, Failed(AWAY), "reconciling", "failed"),
        (False, Failed(FailureClass.AUTH_DENIED), "reconciling", "failed"),
    ],
)
async def test_before_the_last_attempt_ends_a_send_in_doubt_is_looked_up(
    post: Post, delivered: bool, deaf: Exception | None, status: str, ends: str
) -> None:
    review = await post.review(ADA, max_attempts=1)
    post.mail.script.append("lost" if delivered else Failed(FailureClass.NETWORK_TIMEOUT))
    post.mail.deaf = deaf
    await post.work()
    row = await post.row()
    assert (row["status"], await post.status(review)) == (status, ends)
    assert post.events == [f"send {row['token']}", f"look_up {row['token']}"]
    assert (row["reconciled_at"] is None) == (status == "reconciling")
    if ends == "failed":
        letter = await post.letter()
        assert (letter["error_class"], letter["reason"]) == ("NETWORK_TIMEOUT", "budget_exhausted")


@pytest.mark.contract("N-26")
async def test_the_lookup_is_written_down_before_the_row_fails(post: Post) -> None:
    await post.review(ADA, max_attempts=1)
    post.mail.script.append(Failed(FailureClass.NETWORK_TIMEOUT))
    await post.owner.execute(
        "create table public.seen (outcome text); grant insert on public.seen to public;"
        "create function public.watch() returns trigger language plpgsql as $$ begin insert into public.seen "
        "select outcome from review.delivery_attempts where action = 'lookup'; return null; end $$;"
        "create trigger watch after update on review.deliveries for each row "
        "when (new.status = 'failed' and old.status <> 'failed') execute function public.watch()"
    )
    await post.work()
    assert [row["outcome"] for row in await post.owner.fetch("select outcome from public.seen")] == ["absent"]
    assert (await post.row())["status"] == "failed"


@pytest.mark.contract("C-45", "N-26")
async def test_a_refusal_after_a_lost_reply_does_not_hide_that_the_first_one_came_through(post: Post) -> None:
    review = await post.review(ADA)
    post.mail.settles = NOTHING
    post.mail.when_uncertain = post.mail.when_uncertain.SEND_AGAIN
    post.mail.script.extend(["lost", certain(REJECTED)])
    await post.work()
    await post.retry()
    assert (await post.row())["status"] == "reconciling"  # and not failed: nobody can tell
    assert await post.status(review) == "failed"


@pytest.mark.contract("C-42", "C-45")
async def test_a_replay_under_the_same_key_that_is_refused_answers_for_the_first_one_too(post: Post) -> None:
    post.mail.settles, post.mail.window = REPLAY, timedelta(hours=23)
    await post.review(ADA)
    post.mail.script.extend([Failed(FailureClass.NETWORK_TIMEOUT), certain(REJECTED)])
    await post.work()
    await post.retry()
    row = await post.row()
    assert (row["status"], row["send_count"]) == ("failed", 0)


@pytest.mark.contract("C-45")
@pytest.mark.parametrize("end", ["reaped", "canceled"])
async def test_a_job_that_dies_without_its_handler_leaves_its_sends_in_doubt_and_not_as_never_made(
    post: Post, end: str
) -> None:
    review = await post.review(ADA, BOB, EVE, max_attempts=2)
    post.mail.script.extend(["lost", certain(AWAY), "delivered"])
    await post.work()
    if end == "canceled":
        await post.owner.fetchval("select penstock.cancel($1, 'op', 'test')", (await post.job(review))["job_id"])
    else:
        await post.owner.execute(
            "update penstock.jobs set status = 'processing', claimed_by = 'gone', claimed_at = penstock.now(), "
            "claim_seq = claim_seq + 1, lease_expires_at = penstock.now() - interval '1 minute'"
        )
        await post.owner.execute("select * from penstock.reap(10)")
    assert await post.status(review) == ("canceled" if end == "canceled" else "failed")
    assert await post.statuses() == {ADA: "reconciling", BOB: "pending", EVE: "sent"}
    if end == "reaped":
        ids = {str((await post.row(address))["delivery_id"]) for address in (ADA, BOB)}
        assert set(json.loads((await post.letter())["sanitized_context"])["delivery_ids"]) == ids


@pytest.mark.contract("N-20")
async def test_every_call_to_a_provider_is_written_down_under_its_delivery(post: Post) -> None:
    await post.review(ADA, BOB)
    post.mail.script.extend(["lost", certain(AWAY)])
    await post.work()
    post.mail.deaf = Failed(AWAY)
    await post.retry()
    post.mail.deaf = None
    await post.retry()
    rows = await post.owner.fetch(
        "select d.recipient, a.action, a.outcome, a.attempt, a.job_id is not null as by_job "
        "from review.delivery_attempts a join review.deliveries d using (delivery_id) order by a.attempt_id"
    )
    assert [tuple(row)[:3] for row in rows] == [
        (ADA, "send", "NETWORK_TIMEOUT"),
        (BOB, "send", "not_performed UPSTREAM_5XX"),
        (ADA, "lookup", "UPSTREAM_5XX"),
        (BOB, "send", "sent"),
        (ADA, "lookup", "found"),
    ]
    assert all(row["by_job"] for row in rows)
    assert len(rows) == len(post.events)
    assert [row["attempt"] for row in rows if row["action"] == "send"] == [1, 1, 2]


@pytest.mark.contract("N-20", "N-26")
async def test_the_lookup_at_the_end_is_no_send_in_the_records(post: Post) -> None:
    await post.review(ADA, max_attempts=1)
    post.mail.script.append(Failed(FailureClass.NETWORK_TIMEOUT))
    await post.work()
    assert await post.attempts() == [("send", "NETWORK_TIMEOUT"), ("lookup", "absent")]


@pytest.mark.contract("C-51", "E-42", "C-45")
async def test_a_replay_tries_required_recipients_again_once_and_sends_nobody_a_second_one(post: Post) -> None:
    review = await post.review(ADA, BOB, ("smtp", EVE, False))
    post.mail.refused[ADA] = post.mail.refused[EVE] = certain(REJECTED)
    await post.work()
    post.mail.sent.clear()
    await post.replay()
    post.mail.refused[ADA] = certain(AWAY)
    await post.work()
    assert await post.statuses() == {ADA: "pending", BOB: "sent", EVE: "failed"}
    post.mail.refused[ADA] = certain(REJECTED)
    await post.retry()
    assert (await post.row(ADA))["status"] == "failed"  # not opened a second time by this replay
    assert [address for address, _, _ in post.mail.sent] == [ADA, ADA]
    assert await post.status(review) == "failed"


@pytest.mark.contract("C-42", "C-51")
async def test_a_replay_settles_what_was_left_in_doubt_before_it_sends(post: Post) -> None:
    review = await post.review(ADA, max_attempts=1)
    post.mail.script.append("lost")
    post.mail.deaf = Failed(AWAY)
    await post.work()
    assert (await post.row())["status"] == "reconciling"
    post.mail.deaf = None
    await post.replay()
    await post.work()
    assert await post.status(review) == "completed"
    assert list(post.mail.delivered.values()) == [1]


@pytest.mark.contract("N-18")
async def test_a_waived_recipient_is_not_sent_to_and_not_waited_for(post: Post) -> None:
    review = await post.review(ADA, BOB)
    post.mail.refused[ADA] = certain(REJECTED)
    await post.work()
    row = await post.row(ADA)
    await post.owner.fetchval("select review.waive_delivery($1, 'alex')", row["delivery_id"])
    post.mail.sent.clear()
    await post.replay()
    await post.work()
    assert await post.status(review) == "completed"
    assert post.mail.sent == []
    assert (await post.row(ADA))["waived_by"] == "alex"
