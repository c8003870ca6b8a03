"""The end of an item: budgets, backoff, stages, the application's own rows, and triggers that say no."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from penstock import Audit, Failed, FailureClass, Penstock, Snooze
from penstock import Schedule as Delays
from penstock.contract.calls import Answer
from penstock.providers.port import ItemResult
from tests.engine.batches.conftest import MakeLane, build
from tests.engine.batches.returning import (
    Home,
    ReturningAdapter,
    Side,
    all_answers,
    answer,
    error,
    make_home,
    store,
)
from tests.engine.owners import owner_of
from tests.support.fake_provider import FakeBatch


def all_fail(error_class: FailureClass, *, retryable: bool) -> Callable[[FakeBatch], list[ItemResult]]:
    return lambda batch: [error(line.custom_id, error_class, retryable=retryable) for line in all_answers(batch)]


@pytest.mark.contract("A-61", "A-64", "L-54", "L-57", "C-37")
async def test_transient_failures_wait_longer_each_time_and_then_end_with_the_budget(make_lane: MakeLane) -> None:
    home = await make_home(make_lane, attempts=3, backoff=Delays([900, 7200]))
    (job_id,) = await home.fill(1)
    home.provider.lines = all_fail(FailureClass.UPSTREAM_5XX, retryable=True)
    waits = []
    for attempt in range(3):
        await home.submitted()
        await home.collected()
        row = await home.job(job_id)
        assert row["attempt_count"] == attempt + 1
        waits.append(row["run_at"] - row["updated_at"])
        await home.pass_time(hours=3)

    assert waits[:2] == [timedelta(minutes=15), timedelta(hours=2)]
    assert await home.codes([job_id]) == [("failed", "UPSTREAM_5XX")]
    letter = await home.letter(job_id)
    assert (letter["reason"], letter["attempts"], letter["retryable"]) == ("budget_exhausted", 3, True)
    assert await home.states() == ["retried", "retried", "failed"]


@pytest.mark.contract("C-35", "A-61")
async def test_a_job_that_tries_again_goes_into_a_batch_of_its_own_and_counts_once(make_lane: MakeLane) -> None:
    home = await make_home(make_lane, lane={"persist": store}, backoff=Delays([60]))
    (job_id,) = await home.sent(1)
    home.provider.lines = all_fail(FailureClass.RATE_LIMITED, retryable=True)
    await home.collected()
    await home.pass_time(minutes=2)
    home.provider.lines = all_answers
    await home.submitted()

    await home.collected()

    assert await home.outputs() == {job_id: "re: letter 0"}
    assert [(i["claim_seq"], i["state"]) for i in await home.items()] == [(1, "retried"), (2, "completed")]
    assert (await home.job(job_id))["provider_batch_id"] == "pb_1"


def _raise(_job: Any, args: Any, _answer: Answer) -> str:
    raise {"bug": ZeroDivisionError("secret"), "busy": Snooze(timedelta(minutes=7))}[args["text"]]


@pytest.mark.contract("A-55")
async def test_an_accept_that_breaks_is_its_own_items_failure(make_lane: MakeLane) -> None:
    def accept(job: Any, args: Any, said: Answer) -> str:
        return said.text if args["n"] != 1 else _raise(job, {"text": "bug"}, said)

    home = await make_home(make_lane, lane={"accept": accept, "persist": store})
    ids = await home.sent(3)

    await home.collected()

    assert set(await home.outputs()) == {ids[0], ids[2]}
    assert await home.codes([ids[1]]) == [("queued", "RUNTIME_BUG")]


async def test_an_accept_may_ask_for_later_and_uses_no_attempt(make_lane: MakeLane) -> None:
    home = await make_home(make_lane, lane={"accept": _raise})
    (job_id,) = await home.sent(1, text="busy")

    await home.collected()

    row = await home.job(job_id)
    assert (row["status"], row["attempt_count"]) == ("queued", 0)
    assert row["run_at"] - row["updated_at"] == timedelta(minutes=7)


async def test_a_plain_accept_runs_beside_the_event_loop_and_an_async_one_in_it(make_lane: MakeLane) -> None:
    threads: set[str] = set()

    def accept(_job: Any, _args: Any, said: Answer) -> str:
        threads.add(threading.current_thread().name)
        return said.text

    home = await make_home(make_lane, lane={"accept": accept})
    await home.sent(3)
    await home.collected()

    assert threading.current_thread().name not in threads
    assert await home.statuses() == {"completed": 3}


async def test_an_async_accept_that_hangs_ends_at_the_time_limit_of_its_stage(make_lane: MakeLane) -> None:
    async def accept(_job: Any, args: Any, said: Answer) -> str:
        if args["n"] == 1:
            await asyncio.Event().wait()
        return said.text

    home = await make_home(make_lane, lane={"accept": accept}, timeout=timedelta(seconds=0.2))
    ids = await home.sent(3)

    await home.collected()

    assert await home.codes(ids) == [("completed", None), ("queued", "HANDLER_TIMEOUT"), ("completed", None)]


async def test_structured_answers_reach_accept_as_data(make_lane: MakeLane) -> None:
    seen: list[Any] = []

    def accept(_job: Any, _args: Any, said: Answer) -> str:
        seen.append((said.text, said.data, said.usage.input_tokens))
        return "ok"

    home = await make_home(make_lane, lane={"accept": accept})
    await home.sent(1)
    home.provider.lines = lambda batch: [
        answer(line.custom_id, '{"rewritten": "ja"}', data={"rewritten": "ja"}) for line in all_answers(batch)
    ]

    await home.collected()

    assert seen == [('{"rewritten": "ja"}', {"rewritten": "ja"}, 1000)]


# ------------------------------------------------------------- the own rows


@pytest.mark.contract("C-60")
async def test_a_persist_that_raises_rolls_back_and_fails_its_own_item(make_lane: MakeLane) -> None:
    async def persist(job: Any, args: Any, result: str, connection: Any) -> None:
        await store(job, args, result, connection)
        if args["n"] == 1:
            raise Failed(FailureClass.LEXICON_BLOCKED)

    home = await make_home(make_lane, lane={"persist": persist})
    ids = await home.sent(3)

    await home.collected()

    assert await home.codes(ids) == [("completed", None), ("failed", "LEXICON_BLOCKED"), ("completed", None)]
    assert set(await home.outputs()) == {ids[0], ids[2]}


@pytest.mark.contract("C-60", "C-62")
@pytest.mark.parametrize("raised", [OSError("a file"), TimeoutError(), asyncpg.DataError("no")])
async def test_whatever_a_persist_raises_is_not_taken_for_a_database_that_is_away(
    make_lane: MakeLane, raised: Exception
) -> None:
    async def persist(job: Any, args: Any, result: str, connection: Any) -> None:
        if args["n"] == 0:
            raise raised
        await store(job, args, result, connection)

    home = await make_home(make_lane, lane={"persist": persist}, attempts=1)
    ids = await home.sent(2)

    await home.collected()

    assert [status for status, _ in await home.codes(ids)] == ["failed", "completed"]


@pytest.mark.contract("C-60")
async def test_a_constraint_that_refuses_the_row_is_a_failed_attempt_and_no_output(make_lane: MakeLane) -> None:
    home = await make_home(make_lane, lane={"persist": store})
    await home.owner.execute("alter table outputs add check (text <> 're: letter 1')")
    ids = await home.sent(3)

    await home.collected()

    assert [status for status, _ in await home.codes(ids)] == ["completed", "failed", "completed"]
    assert set(await home.outputs()) == {ids[0], ids[2]}


@pytest.mark.contract("C-35", "C-60")
async def test_the_own_rows_of_a_job_that_is_canceled_meanwhile_are_not_written(make_lane: MakeLane) -> None:
    home: Home

    async def accept(job: Any, _args: Any, said: Answer) -> str:
        await home.owner.execute("select penstock.cancel($1, 'somebody', 'not needed')", job.job_id)
        return said.text

    home = await make_home(make_lane, lane={"accept": accept, "persist": store})
    await home.sent(1)

    await home.collected()

    assert (await home.statuses(), await home.outputs()) == ({"canceled": 1}, {})
    assert await home.states() == ["late"]


async def test_a_persist_leaves_nothing_behind_in_the_session(make_lane: MakeLane) -> None:
    seen: list[str] = []

    async def persist(_job: Any, _args: Any, _result: str, connection: Any) -> None:
        seen.append(await connection.fetchval("show statement_timeout"))
        await connection.execute("set statement_timeout = '7s'")

    home = await make_home(make_lane, lane={"persist": persist})
    await home.sent(3)

    await home.collected()

    assert seen == ["0", "0", "0"]


# -------------------------------------------------------------------- triggers

REFUSE = """
create function refuse_letter() returns trigger language plpgsql as $$
begin
    raise exception 'not this one' using errcode = 'P0001';
end $$;
create trigger refuse before update on penstock.jobs for each row
    when (new.status = any('{%s}') and (new.payload ->> 'n') = '1') execute function refuse_letter()
"""


@pytest.mark.contract("C-62", "A-55")
async def test_a_completion_that_a_trigger_refuses_is_a_failed_attempt_and_the_others_complete(
    make_lane: MakeLane,
) -> None:
    home = await make_home(make_lane, attempts=2)
    ids = await home.sent(4)
    await home.owner.execute(REFUSE % "completed")

    await home.collected()

    assert [status for status, _ in await home.codes(ids)] == ["completed", "queued", "completed", "completed"]
    assert (await home.job(ids[1]))["attempt_count"] == 1
    assert await home.states() == ["completed", "retried", "completed", "completed"]


@pytest.mark.contract("C-62")
async def test_a_failure_that_a_trigger_refuses_comes_back_later(make_lane: MakeLane) -> None:
    home = await make_home(make_lane)
    ids = await home.sent(2)
    home.provider.lines = all_fail(FailureClass.SCHEMA_INVALID, retryable=False)
    await home.owner.execute(REFUSE % "failed")

    await home.collected()

    assert [status for status, _ in await home.codes(ids)] == ["failed", "queued"]
    assert len(await home.alerts("end_refused")) == 1


@pytest.mark.contract("C-62")
async def test_an_item_whose_every_end_is_refused_stays_open_and_holds_up_nobody(make_lane: MakeLane) -> None:
    home = await make_home(make_lane)
    ids = await home.sent(3)
    await home.owner.execute(REFUSE % "completed,failed,queued")

    await home.collected()

    assert [status for status, _ in await home.codes(ids)] == ["completed", "batch_submitted", "completed"]
    assert (await home.batch())["state"] == "submitted"
    await home.owner.execute("drop trigger refuse on penstock.jobs")
    await home.pass_time(minutes=15)
    await home.collected()
    assert await home.statuses() == {"completed": 3}


# ---------------------------------------------------------------------- stages


@pytest.fixture
async def staged(dsn: str) -> Any:
    """A type of three stages; the one in the middle asks in a batch."""
    app = Penstock(dsn, grace_seconds=5)
    side = Side()
    app.use_adapters({"fake": lambda url: ReturningAdapter(side, base_url=url)})
    seen: list[Any] = []
    made = app.type(
        "letters", stages=("fetch", "llm", "deliver"), dispatch="scheduled", attempts=2, audit=Audit.FULL,
        backoff=Delays([60]),
    )  # fmt: skip

    @made.stage("fetch")
    async def fetch(_job: Any, args: dict[str, Any]) -> dict[str, Any]:
        return {"fetched": args["n"]}

    def accept(job: Any, _args: Any, said: Answer) -> dict[str, Any]:
        seen.append((job.result("fetch"), job.stage, job.attempt))
        return {"said": said.text}

    made.lane("llm", build=build, accept=accept)

    @made.stage("deliver")
    async def deliver(job: Any, _args: dict[str, Any]) -> None:
        seen.append((job.result("fetch"), job.result("llm")))

    await app.open()
    await app.sync_types()
    yield Home(app, dsn, owner_of(app), side), seen
    await app.close()


@pytest.mark.contract("C-05")
async def test_a_batch_in_an_earlier_stage_saves_its_result_and_the_job_goes_on_uncharged(staged: Any) -> None:
    home, seen = staged
    (job_id,) = await home.fill(1)
    await home.submitted()
    assert (await home.job(job_id))["stage"] == "llm"

    await home.collected()

    row = await home.job(job_id)
    assert (row["status"], row["stage"], row["attempt_count"], row["ready"]) == ("queued", "deliver", 0, True)
    assert await home.states() == ["advanced"]
    await home.submitted()
    assert (await home.job(job_id))["status"] == "completed"
    assert seen == [({"fetched": 0}, "llm", 1), ({"fetched": 0}, {"said": "re: letter 0"})]


@pytest.mark.contract("C-05", "C-37")
async def test_the_budget_of_a_stage_in_a_batch_is_that_stages_own(staged: Any) -> None:
    home, seen = staged
    (job_id,) = await home.fill(1)
    home.provider.lines = all_fail(FailureClass.UPSTREAM_5XX, retryable=True)
    await home.submitted()
    await home.collected()
    attempts = "select attempts from penstock.stages where job_id = $1 and stage = 'llm'"
    assert await home.owner.fetchval(attempts, job_id) == 1
    await home.pass_time(minutes=2)
    await home.submitted()

    await home.collected()

    assert await home.codes([job_id]) == [("failed", "UPSTREAM_5XX")]
    assert (await home.letter(job_id))["stage"] == "llm"
    assert await home.owner.fetchval(attempts, job_id) == 2
    assert seen == []


@pytest.mark.contract("C-05")
async def test_a_stage_result_that_cannot_be_stored_is_that_items_failure(staged: Any) -> None:
    home, _ = staged
    (job_id,) = await home.fill(1)
    await home.submitted()
    home.provider.lines = lambda batch: [answer(line.custom_id, "x" * 300_000) for line in all_answers(batch)]

    await home.collected()

    assert (await home.job(job_id))["status"] == "failed"
    assert await home.states() == ["failed"]
