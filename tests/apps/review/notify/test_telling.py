"""Rows first, then send, then mark: everybody is told once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import asyncpg
import pytest

from penstock.apps.review.deliveries import delivery_token
from penstock.contract.keys import token
from tests.apps.review.notify.conftest import ADA, BOB, EVE, Post
from tests.apps.review.notify.recorder import Recorder


@pytest.mark.contract("N-11", "N-18")
async def test_everybody_is_told_and_the_job_succeeds(post: Post) -> None:
    review = await post.review(ADA, BOB, ("webhook", "https://hooks.example.org/r"))
    await post.work()
    assert await post.status(review) == "completed"
    assert set((await post.statuses()).values()) == {"sent"}
    assert sorted(post.mail.delivered.values()) == [1, 1]
    row = await post.row(BOB)
    assert row["notification_id"] == post.mail.receipt(row["token"]).notification_id
    assert row["notified_at"] is not None


@pytest.mark.contract("N-07", "N-08")
async def test_a_row_for_every_recipient_is_there_before_the_first_send_and_a_second_run_adds_none(post: Post) -> None:
    seen: list[int] = []

    async def watch() -> None:
        seen.append(await post.owner.fetchval("select count(*) from review.deliveries"))

    post.mail.before = watch
    await post.review(ADA, BOB, EVE)
    post.mail.script.append("lost")
    await post.work()
    await post.retry()
    assert seen == [3, 3, 3]
    assert await post.owner.fetchval("select count(*) from review.deliveries") == 3


@pytest.mark.contract("N-07", "N-39")
def test_the_key_of_a_delivery_is_changelist_recipient_and_version() -> None:
    assert delivery_token("shop:1", " Ada@Example.org ", 2) == token("shop:1", "ada@example.org", 2)
    others = [("shop:2", ADA, 2), ("shop:1", BOB, 2), ("shop:1", ADA, 3)]
    assert len({delivery_token(*one) for one in [("shop:1", ADA, 2), *others]}) == 4


@pytest.mark.contract("N-10", "N-39")
async def test_payload_and_token_are_the_same_bytes_in_every_process(post: Post) -> None:
    await post.review(ADA)
    post.mail.script.append("lost")
    post.mail.settles = frozenset()
    post.mail.when_uncertain = post.mail.when_uncertain.SEND_AGAIN
    await post.work()
    await post.owner.execute("alter table review.deliveries disable trigger guarded")
    await post.set(payload="null")  # so that the second one is written anew
    await post.retry()
    (first, second) = post.mail.sent
    assert first == second
    code = "from penstock.apps.review.deliveries import delivery_token as t; print(t('shop:1', 'Ada@example.org ', 1))"
    other = await asyncio.to_thread(subprocess.check_output, [sys.executable, "-c", code], text=True)
    assert other.strip() == first[1]


@pytest.mark.contract("N-12", "N-13", "N-31")
async def test_the_send_comes_first_and_one_write_marks_id_time_and_status(post: Post, recorder: Recorder) -> None:
    await post.review(ADA, BOB)
    await post.work()
    for address in (ADA, BOB):
        row = await post.row(address)
        told = recorder.about(row["delivery_id"])
        marks = [n for n, one in enumerate(told) if "notified_at =" in one]
        assert len(marks) == 1
        assert told.index(f"send {row['token']}") < marks[0]
        assert all(
            part in told[marks[0]] for part in ("notification_id = $2", "notified_at = penstock.now()", "'sent'")
        )


@pytest.mark.contract("N-14", "N-38")
async def test_a_retry_reads_the_row_again_before_it_sends(post: Post, recorder: Recorder) -> None:
    await post.review(ADA)
    post.mail.script.append("lost")
    post.mail.settles = frozenset()
    post.mail.when_uncertain = post.mail.when_uncertain.SEND_AGAIN
    await post.work()
    recorder.events.clear()
    await post.retry()
    row = await post.row()
    told = recorder.about(row["delivery_id"])
    (read,) = [n for n, one in enumerate(told) if "for update" in one and "notified_at" in one]
    assert read < told.index(f"send {row['token']}")
    assert "notification_id" in told[read]


@pytest.mark.contract("N-09", "N-15", "C-43")
async def test_a_row_that_is_marked_is_not_sent_again_whatever_else_is_known(post: Post) -> None:
    review = await post.review(ADA, BOB)
    post.mail.script.extend(["lost", "lost"])
    await post.work()
    await post.set(ADA, notified_at="penstock.now()", notification_id="null")
    await post.retry()
    assert await post.status(review) == "completed"
    assert [address for address, _, _ in post.mail.sent].count(ADA) == 1
    assert [token for token, _ in post.mail.looked_up] == [(await post.row(BOB))["token"]]


@pytest.mark.contract("N-09")
async def test_a_row_that_was_marked_before_the_first_attempt_is_skipped(post: Post) -> None:
    review = await post.review(ADA, BOB)
    post.mail.refused[ADA] = post.mail.refused[BOB] = TimeoutError()
    await post.work()
    post.mail.refused.clear()
    post.mail.sent.clear()
    await post.set(ADA, notified_at="penstock.now()", status="'sent'")
    await post.retry()
    assert await post.status(review) == "completed"
    assert [address for address, _, _ in post.mail.sent] == [BOB]


@pytest.mark.contract("N-35", "N-36")
async def test_there_is_one_row_for_changelist_recipient_and_version(post: Post) -> None:
    await post.review(ADA)
    await post.work()
    await post.review(ADA, version=2)
    await post.work()
    rows = await post.owner.fetch("select review_version, token from review.deliveries order by 1")
    assert [row["review_version"] for row in rows] == [1, 2]
    assert len({row["token"] for row in rows}) == 2
    columns = "review_id, changelist_id, recipient, review_version, channel, address, required, promise"
    with pytest.raises(asyncpg.UniqueViolationError) as refused:
        await post.owner.execute(
            f"insert into review.deliveries (delivery_id, token, {columns}) "
            f"select gen_random_uuid(), repeat('0', 64), {columns} from review.deliveries where review_version = 1"
        )
    assert refused.value.constraint_name == "deliveries_identity"


@pytest.mark.contract("C-52", "N-36")
async def test_no_address_leaves_the_tables_of_the_application(post: Post) -> None:
    await post.review("canary-7d1@example.org")
    post.mail.script.append("lost")
    post.mail.deaf = ConnectionResetError("canary-7d1@example.org")
    await post.work()
    await post.finish()
    tables = await post.owner.fetch(
        "select format('%I.%I', n.nspname, c.relname) as name "
        "from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where c.relkind = 'r' and n.nspname in ('penstock', 'public')"
    )
    for table in tables:
        assert not await post.owner.fetchval(
            f"select exists (select from {table['name']} t where t::text like '%canary%')"
        )
    assert "canary" not in post.log.getvalue()
    assert await post.owner.fetchval("select count(*) from penstock.effects") == 1


@pytest.mark.contract("C-61")
async def test_the_engines_ledger_and_the_row_say_the_same(post: Post) -> None:
    await post.review(ADA)
    await post.work()
    row = await post.row()
    (effect,) = await post.owner.fetch("select state, token, result, perform_count from penstock.effects")
    assert (effect["state"], effect["token"], effect["perform_count"]) == ("done", row["token"], row["send_count"])
    assert json.loads(effect["result"]) == {"notification_id": row["notification_id"]}
