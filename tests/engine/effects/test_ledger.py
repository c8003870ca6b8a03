"""Effects that several claims, replays and lost replies have to do with (C-61)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import EffectBusy, Found, LeaseLost, Penstock, Schedule
from penstock.contract.errors import SettingsInvalid
from penstock.contract.keys import uuid7
from penstock.store import effects as store
from penstock.testing import Harness
from tests.engine.effects.conftest import Outside
from tests.engine.effects.ledger import effects, mailing, tries
from tests.engine.looking import letter

if TYPE_CHECKING:
    from uuid import UUID


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


async def test_the_mark_of_a_zombie_is_refused_once_another_claim_has_made_its_own(
    app: Penstock, outside: Outside
) -> None:
    """Fault 13 after the heir is done; while it performs, only the fence can tell (tests/faults/test_effects.py)."""
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
