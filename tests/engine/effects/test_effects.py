"""`job.effect()`: intent, perform, mark; settled before it is ever repeated (C-61)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import EffectBusy, Found, LeaseLost, NotPerformed, Penstock, Schedule
from penstock.contract.errors import SettingsInvalid
from penstock.contract.keys import uuid7
from penstock.store import effects as store
from penstock.testing import Harness
from tests.engine.effects.conftest import Outside
from tests.engine.looking import HttpError, alerts, letter

if TYPE_CHECKING:
    from uuid import UUID


async def effects(app: Penstock) -> list[tuple[str, int]]:
    """State and number of tries of every effect."""
    rows = await app.pool.fetch("select state, perform_count from penstock.effects order by effect_key")
    return [tuple(row) for row in rows]


async def tries(app: Penstock) -> list[tuple[str, str]]:
    """Every row of the tries, in order."""
    rows = await app.pool.fetch("select action, outcome from penstock.effect_attempts order by attempt_id")
    return [tuple(row) for row in rows]


def mailing(
    app: Penstock, outside: Outside, *, key: str | None = None, settles: bool = True, **policy: Any
) -> list[Any]:
    """A type whose handler has one effect; returns the list of its results."""
    results: list[Any] = []

    @app.job("mail", **{"backoff": Schedule([0]), **policy})
    async def mail(job: Any, args: Any) -> None:
        settle = outside.settle if settles else None
        results.append(await job.effect("send", key=key, perform=outside.perform, settle=settle))

    return results


@pytest.mark.contract("C-61")
async def test_a_first_try_is_performed_without_asking_and_marked(app: Penstock, outside: Outside) -> None:
    results = mailing(app, outside)
    async with Harness(app) as harness:
        await harness.enqueue("mail")
        await harness.drain()
        assert await effects(app) == [("done", 1)]
        assert await tries(app) == [("intend", "first"), ("mark", "done")]
        [stored] = await app.pool.fetch("select token from penstock.effects")
    assert outside.asked == []
    assert list(outside.performed) == [stored["token"]]
    assert results == [{"id": f"m-{stored['token'][:6]}"}]


@pytest.mark.contract("C-61")
async def test_the_intent_is_committed_before_anything_happens_outside(app: Penstock) -> None:
    seen: list[str] = []

    @app.job("mail")
    async def mail(job: Any, args: Any) -> None:
        async def perform(token: str) -> None:
            seen.append(await app.pool.fetchval("select state from penstock.effects where token = $1", token))

        await job.effect("send", perform=perform)

    async with Harness(app) as harness:
        await harness.enqueue("mail")
        await harness.drain()
    assert seen == ["intended"]


@pytest.mark.contract("C-61")
async def test_a_done_effect_is_remembered_and_not_repeated(app: Penstock, outside: Outside) -> None:
    results: list[Any] = []

    @app.job("mail", backoff=Schedule([0]))
    async def mail(job: Any, args: Any) -> None:
        results.append(await job.effect("send", perform=outside.perform, settle=outside.settle))
        if job.attempt < 3:
            raise TimeoutError

    async with Harness(app) as harness:
        await harness.enqueue("mail")
        await harness.drain()
        assert await effects(app) == [("done", 1)]
    assert outside.total == 1
    assert results == [results[0]] * 3


@pytest.mark.contract("C-61")
async def test_a_reply_that_was_lost_is_looked_up_and_not_sent_again(app: Penstock, outside: Outside) -> None:
    """Fault 21: the provider accepted, and nobody heard of it."""
    results = mailing(app, outside)
    outside.reply_lost = ConnectionResetError()
    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await (await harness.worker()).work()
        outside.reply_lost = None
        await harness.drain()
        assert await harness.status(job_id) == "completed"
        assert await effects(app) == [("done", 2)]
        assert await tries(app) == [
            ("intend", "first"),
            ("perform", "NETWORK_RESET"),
            ("intend", "again"),
            ("settle", "found"),
            ("mark", "done"),
        ]
    assert outside.total == 1
    assert len(results) == 1


@pytest.mark.contract("C-61")
async def test_an_earlier_try_that_is_absent_is_performed_with_the_same_token(app: Penstock, outside: Outside) -> None:
    mailing(app, outside)
    outside.failing = ConnectionResetError()
    async with Harness(app) as harness:
        await harness.enqueue("mail")
        await (await harness.worker()).work()
        outside.failing = None
        await harness.drain()
        assert ("settle", "absent") in await tries(app)
        token = await app.pool.fetchval("select token from penstock.effects")
    assert outside.asked == [token]
    assert dict(outside.performed) == {token: 1}


@pytest.mark.contract("C-61", "C-42")
async def test_while_nobody_answers_nothing_is_performed_and_the_attempt_fails(app: Penstock, outside: Outside) -> None:
    mailing(app, outside, attempts=4)
    outside.reply_lost = TimeoutError()
    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        hand = await harness.worker()
        await hand.work()
        outside.reply_lost, outside.deaf = None, HttpError(503)
        await hand.work()
        row = await harness.job(job_id)
        assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("queued", 2, "NETWORK_RESET")
        assert (await tries(app))[-1] == ("settle", "NETWORK_RESET")
        outside.deaf = None
        await harness.drain()
        assert await harness.status(job_id) == "completed"
    assert outside.total == 1


@pytest.mark.contract("C-61", "C-02")
async def test_a_doubt_that_nobody_can_settle_goes_to_a_person(app: Penstock, outside: Outside) -> None:
    mailing(app, outside, settles=False, attempts=5)
    outside.reply_lost = TimeoutError()
    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        dead = await letter(harness, job_id)
        assert (dead["reason"], dead["retryable"], dead["attempts"]) == ("integrity", False, 2)
        assert "EffectUncertain" in dead["last_stack"]
        assert await effects(app) == [("uncertain", 2)]
        assert await alerts(harness) == [("effect_uncertain", "alert")]
    assert outside.total == 1


@pytest.mark.contract("C-61")
async def test_a_doubt_inside_a_task_group_is_one_too(app: Penstock, outside: Outside) -> None:
    outside.reply_lost = TimeoutError()

    @app.job("mail", backoff=Schedule([0]))
    async def mail(job: Any, args: Any) -> None:
        async with asyncio.TaskGroup() as group:
            for name in ("one", "two"):
                group.create_task(job.effect(name, perform=outside.perform))

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        assert (await letter(harness, job_id))["reason"] == "integrity"


@pytest.mark.contract("C-61")
async def test_a_second_one_is_accepted_only_where_the_handler_says_so(app: Penstock, outside: Outside) -> None:
    outside.reply_lost = TimeoutError()

    @app.job("mail", backoff=Schedule([0]))
    async def mail(job: Any, args: Any) -> None:
        await job.effect("send", perform=outside.perform, repeat_when_uncertain=True)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await (await harness.worker()).work()
        outside.reply_lost = None
        await harness.drain()
        assert await harness.status(job_id) == "completed"
        assert ("settle", "repeated_unsettled") in await tries(app)
    assert outside.total == 2


@pytest.mark.contract("C-61")
async def test_a_perform_that_certainly_did_not_happen_needs_no_lookup(app: Penstock, outside: Outside) -> None:
    calls: list[str] = []

    @app.job("mail", backoff=Schedule([0]))
    async def mail(job: Any, args: Any) -> None:
        async def perform(token: str) -> str:
            calls.append(token)
            if len(calls) == 1:
                raise NotPerformed from HttpError(429, retry_after="0")
            return "sent"

        assert await job.effect("send", perform=perform) == "sent"  # no settle, and no doubt

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await (await harness.worker()).work()
        assert (await harness.job(job_id))["last_error_code"] == "RATE_LIMITED"
        assert await effects(app) == [("abandoned", 1)]
        await harness.drain()
        assert await harness.status(job_id) == "completed"
        assert (await tries(app))[1] == ("perform", "not_performed RATE_LIMITED")
    assert len(set(calls)) == 1


@pytest.mark.contract("C-61")
@pytest.mark.parametrize("answer", [None, True, {"id": 1}])
async def test_an_answer_that_is_neither_found_nor_absent_is_never_taken_for_absent(
    app: Penstock, outside: Outside, answer: Any
) -> None:
    outside.reply_lost = TimeoutError()

    async def settle(token: str) -> Any:
        return answer

    @app.job("mail", backoff=Schedule([0]))
    async def mail(job: Any, args: Any) -> None:
        await job.effect("send", perform=outside.perform, settle=settle)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        assert (await letter(harness, job_id))["error_class"] == "CONFIG_INVALID"
    assert outside.total == 1


@pytest.mark.contract("C-61", "C-51")
async def test_a_replay_does_not_repeat_what_its_original_has_done(app: Penstock, outside: Outside) -> None:
    results: list[Any] = []

    @app.job("mail", attempts=1)
    async def mail(job: Any, args: Any) -> None:
        results.append(await job.effect("send", perform=outside.perform, settle=outside.settle))
        if job.root_job_id == job.job_id:
            raise TimeoutError

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        replay = await _replayed(app, job_id)
        await harness.drain()
        assert await harness.status(replay) == "completed"
    assert outside.total == 1
    assert results[0] == results[1]


async def _replayed(app: Penstock, job_id: UUID) -> UUID:
    """A new job that stands for *job_id*, as a replay makes it."""
    replay = uuid7()
    await app.pool.execute(
        "insert into penstock.jobs (job_id, created_at, updated_at, run_at, ready, max_attempts, job_type, stage, "
        "replay_of_job_id) select $2, penstock.now(), penstock.now(), penstock.now(), true, max_attempts, job_type, "
        "stage, job_id from penstock.jobs where job_id = $1",
        job_id,
        replay,
    )
    return replay


@pytest.mark.contract("C-61")
async def test_jobs_with_one_key_share_one_effect(app: Penstock, outside: Outside) -> None:
    results = mailing(app, outside, key="invoice-7")
    async with Harness(app) as harness:
        for _ in range(5):
            await harness.enqueue("mail")
        await harness.work_until_idle()
        assert await effects(app) == [("done", 1)]
    assert outside.total == 1
    assert results == [results[0]] * 5


@pytest.mark.contract("C-61")
async def test_a_job_that_meets_an_effect_in_another_s_hand_comes_back_uncharged(
    app: Penstock, outside: Outside
) -> None:
    performing, release = asyncio.Event(), asyncio.Event()
    busy: list[UUID] = []

    @app.job("mail", attempts=1)
    async def mail(job: Any, args: Any) -> None:
        async def perform(token: str) -> Any:
            performing.set()
            await release.wait()
            return await outside.perform(token)

        try:
            await job.effect("send", key="k", perform=perform, settle=outside.settle)
        except EffectBusy:
            busy.append(job.job_id)
            raise

    async with Harness(app) as harness:
        first = await harness.enqueue("mail")
        one = asyncio.create_task((await harness.worker("one")).work())
        await performing.wait()
        second = await harness.enqueue("mail")
        await harness.drain("two")
        row = await harness.job(second)
        assert (row["status"], row["attempt_count"], busy) == ("queued", 0, [second])
        assert outside.asked == []  # not even asked: the other may be sending just now
        release.set()
        await one
        await harness.work_until_idle("two")
        assert [await harness.status(job) for job in (first, second)] == ["completed", "completed"]
    assert outside.total == 1


@pytest.mark.contract("C-61", "C-31")
async def test_the_mark_of_a_zombie_is_refused_once_another_claim_has_taken_over(
    app: Penstock, outside: Outside
) -> None:
    """Fault 13: the late reply of a claim that lost its lease is not applied."""
    performing, release = asyncio.Event(), asyncio.Event()
    lost: list[int] = []

    @app.job("mail", lease=timedelta(minutes=1), attempts=3)
    async def mail(job: Any, args: Any) -> None:
        async def perform(token: str) -> Any:
            if job.claim_seq == 1:
                performing.set()
                await release.wait()
                return "late"
            return "in time"

        try:
            await job.effect("send", perform=perform, settle=outside.settle)
        except LeaseLost:
            lost.append(job.claim_seq)
            raise

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        zombie = await harness.worker("zombie")
        zombie.heartbeat.period = 3600
        one = asyncio.create_task(zombie.work())
        await performing.wait()
        await harness.pass_time(minutes=2)
        await harness.drain("other")
        release.set()
        await one
        assert await harness.status(job_id) == "completed"
        assert await app.pool.fetchval("select result::text from penstock.effects") == '"in time"'
    assert lost == [1]


@pytest.mark.contract("C-61")
async def test_two_effects_of_one_name_at_once_in_one_handler_are_refused(app: Penstock, outside: Outside) -> None:
    refused: list[str] = []

    @app.job("mail")
    async def mail(job: Any, args: Any) -> None:
        async def perform(token: str) -> Any:
            with pytest.raises(SettingsInvalid) as caught:
                await job.effect("send", perform=outside.perform)
            refused.append(str(caught.value))
            return await outside.perform(token)

        await job.effect("send", perform=perform)
        await job.effect("send", perform=perform)  # later: the same, and done

    async with Harness(app) as harness:
        await harness.enqueue("mail")
        await harness.drain()
    assert len(refused) == 1
    assert outside.total == 1


@pytest.mark.contract("C-61")
async def test_a_handler_may_try_again_itself_and_still_asks_first(app: Penstock, outside: Outside) -> None:
    outside.reply_lost = TimeoutError()

    @app.job("mail")
    async def mail(job: Any, args: Any) -> None:
        with pytest.raises(TimeoutError):
            await job.effect("send", perform=outside.perform, settle=outside.settle)
        outside.reply_lost = None
        await job.effect("send", perform=outside.perform, settle=outside.settle)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        assert await harness.status(job_id) == "completed"
    assert outside.total == 1
    assert len(outside.asked) == 1


@pytest.mark.contract("C-61")
async def test_an_effect_whose_result_cannot_be_kept_is_marked_all_the_same(app: Penstock) -> None:
    sent: list[str] = []

    @app.job("mail", attempts=5)
    async def mail(job: Any, args: Any) -> None:
        async def perform(token: str) -> Any:
            sent.append(token)
            return {"body": "\x00"}

        await job.effect("send", perform=perform)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        assert (await letter(harness, job_id))["error_class"] == "PAYLOAD_REJECTED"
        assert await effects(app) == [("done", 1)]
        assert (await tries(app))[-1] == ("mark", "done_result_refused")
        await _replayed(app, job_id)
        await harness.drain()
    assert len(sent) == 1


@pytest.mark.contract("C-61", "C-63")
async def test_a_handler_stopped_between_perform_and_mark_still_marks(app: Penstock, outside: Outside) -> None:
    @app.job("mail", timeout=timedelta(seconds=0.2), backoff=Schedule([0]), attempts=2)
    async def mail(job: Any, args: Any) -> None:
        async def perform(token: str) -> Any:
            result = await outside.perform(token)
            if job.attempt == 1:
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.Event().wait()  # the time is up, and the message is out
            return result

        await job.effect("send", perform=perform)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        row = await harness.job(job_id)
        assert (row["status"], row["last_error_code"]) == ("completed", "HANDLER_TIMEOUT")
        assert await effects(app) == [("done", 1)]
    assert outside.total == 1


@pytest.mark.contract("C-61")
async def test_an_effect_after_the_transaction_is_refused_before_it_happens(app: Penstock, outside: Outside) -> None:
    refused: list[str] = []

    @app.job("mail")
    async def mail(job: Any, args: Any) -> None:
        async with job.transaction():
            pass
        try:
            await job.effect("send", perform=outside.perform)
        except SettingsInvalid as error:
            refused.append(str(error))

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        assert await harness.status(job_id) == "completed"
    assert "before it" in refused[0]
    assert outside.total == 0


@pytest.mark.contract("C-61")
@pytest.mark.parametrize(
    ("name", "key"), [("Send Mail", None), ("", None), ("x" * 60, None), ("send", "k" * 500), ("send", "a\x00b")]
)
async def test_a_name_or_key_that_the_ledger_cannot_keep_is_refused_clearly(
    app: Penstock, outside: Outside, name: str, key: str | None
) -> None:
    @app.job("mail")
    async def mail(job: Any, args: Any) -> None:
        await job.effect(name, key=key, perform=outside.perform)

    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        assert (await letter(harness, job_id))["error_class"] == "CONFIG_INVALID"
    assert outside.total == 0


@pytest.mark.contract("C-61")
async def test_an_intent_whose_reply_was_lost_is_no_doubt(
    app: Penstock, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = store.intend, 0

    async def intend(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = await real(*arguments, **options)
        if calls == 1:
            raise ConnectionResetError
        return answer

    monkeypatch.setattr(store, "intend", intend)
    mailing(app, outside, settles=False, attempts=1)
    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        assert await harness.status(job_id) == "completed"
        assert await effects(app) == [("done", 1)]
    assert (outside.total, calls) == (1, 2)


@pytest.mark.contract("C-61")
async def test_a_mark_whose_reply_was_lost_is_no_lost_lease(
    app: Penstock, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = store.mark, 0

    async def mark(*arguments: Any, **options: Any) -> bool:
        nonlocal calls
        calls += 1
        answer = await real(*arguments, **options)
        if calls == 1:
            raise ConnectionResetError
        return answer

    monkeypatch.setattr(store, "mark", mark)
    mailing(app, outside, attempts=1)
    async with Harness(app) as harness:
        job_id = await harness.enqueue("mail")
        await harness.drain()
        assert await harness.status(job_id) == "completed"
    assert (outside.total, calls) == (1, 2)


def test_found_carries_what_performing_would_have_returned() -> None:
    assert Found({"id": 1}).result == {"id": 1}
