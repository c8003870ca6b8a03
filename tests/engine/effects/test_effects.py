"""`job.effect()`: intent, perform, mark; settled before it is ever repeated (C-61)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock import NotPerformed, Penstock, Schedule
from penstock.testing import Harness
from tests.engine.effects.conftest import Outside
from tests.engine.effects.ledger import effects, mailing, tries
from tests.engine.looking import HttpError, alerts, letter


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
