"""The face of a lane: three functions, two bounded runs, and refusals that say what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from penstock import Failed, FailureClass, Job, Penstock
from penstock.contract.calls import Answer, Execution, Request, Route, Usage
from penstock.contract.errors import SettingsInvalid
from penstock.engine.batches.lane import LaneJob, LaneSchedule
from penstock.testing import Harness
from tests.engine.batches.conftest import COLLECTOR, SUBMITTER, TYPE, Lane, MakeLane, accept, build
from tests.support.fake_provider import FakeAdapter


def functions(app: Penstock) -> dict[str, timedelta | None]:
    """The cadence of every function."""
    return {f.name: f.cadence.every if f.cadence is not None else None for f in app.functions}


@pytest.mark.contract("Q-45", "Q-46")
def test_a_lane_comes_with_a_submitter_and_a_collector_and_their_cadences(dsn: str) -> None:
    app = Penstock(dsn)
    app.lane(TYPE, build=build, accept=accept)

    cadences = functions(app)

    assert cadences[SUBMITTER] == timedelta(minutes=15)
    assert cadences[COLLECTOR] == timedelta(minutes=30)
    assert TYPE not in cadences


def test_names_and_cadences_can_be_set(dsn: str) -> None:
    app = Penstock(dsn)
    pace = LaneSchedule(
        submitter="out", collector="back", submit_every=timedelta(minutes=5), collect_every=timedelta(1)
    )
    app.lane(TYPE, build=build, accept=accept, schedule=pace)

    cadences = functions(app)

    assert (cadences["out"], cadences["back"]) == (timedelta(minutes=5), timedelta(1))


@pytest.mark.contract("C-25")
def test_a_collector_has_twice_the_room_of_its_submitter_and_not_one_item_more(dsn: str) -> None:
    app = Penstock(dsn)
    pace = LaneSchedule(collector="back", submit_every=timedelta(minutes=15), collect_every=timedelta(minutes=15))
    app.lane(TYPE, build=build, accept=accept, drain_cap=1000, schedule=pace)

    assert app.functions.get("back").max_jobs == 2000


@pytest.mark.contract("C-25")
def test_a_collector_that_its_submitter_would_outrun_is_refused(dsn: str) -> None:
    app = Penstock(dsn)
    pace: dict[str, Any] = {"submit_every": timedelta(minutes=15), "collect_every": timedelta(minutes=30)}

    app.lane("even", build=build, accept=accept, drain_cap=100, schedule=LaneSchedule(collector_cap=300, **pace))
    with pytest.raises(SettingsInvalid, match="raise collector_cap to 300"):
        app.lane("slow", build=build, accept=accept, drain_cap=100, schedule=LaneSchedule(collector_cap=299, **pace))

    assert "slow" not in app.types


@pytest.mark.contract("C-25")
def test_without_a_cap_of_its_own_the_collector_keeps_well_ahead(dsn: str) -> None:
    app = Penstock(dsn)
    app.lane(TYPE, build=build, accept=accept, drain_cap=100)

    collector = app.functions.get(COLLECTOR)

    assert app.functions.caps_of(collector).jobs == 400  # twice the pace of 100 every 15 minutes


def test_the_lane_of_one_stage_among_several_is_checked_too(dsn: str) -> None:
    app = Penstock(dsn, collector_max_items=100)
    staged = app.type("review", stages=("fetch", "llm"), dispatch="scheduled")

    with pytest.raises(SettingsInvalid, match="batches would pile up"):
        staged.lane("llm", build=build, accept=accept)


def test_a_lane_is_only_for_scheduled_types(dsn: str) -> None:
    app = Penstock(dsn)
    with pytest.raises(SettingsInvalid, match="needs dispatch='scheduled'"):
        app.type("review", stages=("fetch", "llm")).lane("llm", build=build, accept=accept)


def test_functions_of_a_wrong_shape_are_refused_when_they_are_declared(dsn: str) -> None:
    app = Penstock(dsn)
    with pytest.raises(SettingsInvalid, match=r"must take \(job, args\)"):
        app.lane("one", build=lambda job: None, accept=accept)
    with pytest.raises(SettingsInvalid, match="persist must be async"):
        app.lane("two", build=build, accept=accept, persist=lambda *_: None)
    with pytest.raises(SettingsInvalid, match="batches_per_run"):
        LaneSchedule(batches_per_run=0)


def test_a_function_declared_by_hand_takes_the_place_of_the_submitter(dsn: str) -> None:
    app = Penstock(dsn)
    job_type = app.lane(TYPE, build=build, accept=accept)
    app.job_function("by_hand", job_type)

    names = set(functions(app))

    assert {"by_hand", COLLECTOR} <= names
    assert SUBMITTER not in names


async def test_a_function_declared_by_hand_parks_as_well(lane: Lane) -> None:
    lane.app.job_function("by_hand", TYPE)
    await lane.fill(2)

    await lane.app.run_function("by_hand", insecure=True)

    assert await lane.statuses() == {"batch_submitted": 2}


@pytest.mark.contract("Q-72", "A-50")
async def test_an_async_route_makes_one_call_per_job_and_no_batch(lane: Lane) -> None:
    await lane.fill(3, execution="async")

    run = await lane.submitted()

    assert lane.provider.asked == ["call"] * 3
    assert [call.text for call in lane.provider.calls] == ["letter 0", "letter 1", "letter 2"]
    assert await lane.statuses() == {"completed": 3}
    assert run.by_model == {"acme/small": 3}
    assert await lane.batches() == []


@pytest.mark.contract("Q-72")
def test_a_route_goes_by_batch_unless_it_says_otherwise() -> None:
    assert Route("openai", "small", "openai_responses").execution == "batch"


async def test_what_a_single_call_used_is_in_the_spend_of_the_day(lane: Lane) -> None:
    await lane.fill(2, execution="async", target_locale="es-ES")

    await lane.submitted()

    row = await lane.owner.fetchrow("select * from penstock.spend")
    assert row is not None
    assert (row["job_type"], row["provider"], row["model"], row["target_locale"]) == (TYPE, "acme", "small", "es-ES")
    assert (row["execution"], row["calls"], row["input_tokens"], row["output_tokens"]) == ("async", 2, 6, 4)


async def test_what_accept_refuses_fails_by_its_own_class(make_lane: MakeLane) -> None:
    def refuse(_job: LaneJob, _args: dict[str, Any], _answer: Answer) -> None:
        raise Failed(FailureClass.LOCALE_MISMATCH)

    lane = await make_lane(lane={"accept": refuse})
    (job_id,) = await lane.fill(1, execution="async")

    await lane.submitted()

    assert ((await lane.job(job_id))["status"], (await lane.job(job_id))["last_error_code"]) == (
        "failed",
        "LOCALE_MISMATCH",
    )


@pytest.mark.contract("A-60", "L-49", "C-04")
@pytest.mark.parametrize("execution", ["batch", "async"])
async def test_a_build_with_nothing_to_ask_completes_its_job_without_a_call(
    make_lane: MakeLane, execution: str
) -> None:
    def done_before(job: Job, args: dict[str, Any]) -> Request | None:
        return None if args["n"] == 1 else build(job, args)

    lane = await make_lane(lane={"build": done_before}, audit="full")
    _asked, done = await lane.fill(2, execution=execution)

    await lane.submitted()

    assert (await lane.job(done))["status"] == "completed"
    moves = await lane.owner.fetch("select to_status from penstock.job_events where job_id = $1 order by at", done)
    assert [row["to_status"] for row in moves] == ["queued", "processing", "completed"]
    assert len(lane.provider.calls) == (1 if execution == "async" else 0)
    assert sum(batch["item_count"] for batch in await lane.batches()) == (1 if execution == "batch" else 0)


async def test_what_is_held_around_a_single_call_is_let_go_before_the_answer_is_stored(make_lane: MakeLane) -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def around(_job: LaneJob, args: dict[str, Any]) -> AsyncIterator[None]:
        steps.append(f"lock {args['n']}")
        yield
        steps.append("unlock")

    async def persist(*_: Any) -> None:
        steps.append("persist")

    lane = await make_lane(lane={"around": around, "persist": persist})
    await lane.fill(1, execution="async")
    await lane.submitted()
    assert steps == ["lock 0", "unlock", "persist"]

    await lane.fill(1)
    await lane.submitted()
    assert steps == ["lock 0", "unlock", "persist"], "nothing is held for a job that waits in a batch"


@pytest.mark.contract("C-60")
async def test_what_persist_stores_commits_with_the_job_or_not_at_all(make_lane: MakeLane) -> None:
    async def persist(job: LaneJob, args: dict[str, Any], result: str, connection: Any) -> None:
        await connection.execute("insert into answers values ($1, $2)", str(job.job_id), result)
        if args["n"] == 1:
            raise Failed(FailureClass.SCHEMA_INVALID)

    lane = await make_lane(lane={"persist": persist})
    await lane.owner.execute("create table answers (job_id text, answer text)")
    good, _bad = await lane.fill(2, execution="async")

    await lane.submitted()

    assert await lane.owner.fetch("select * from answers") == [(str(good), "yes")]
    assert await lane.statuses() == {"completed": 1, "failed": 1}


async def test_the_stages_around_a_lane_run_as_usual(dsn: str, make_lane: MakeLane) -> None:
    lane: Lane = await make_lane()
    seen: list[Any] = []
    staged = lane.app.type("review", stages=("fetch", "llm"), dispatch="scheduled")

    @staged.stage("fetch")
    async def fetch(_job: Job, args: dict[str, Any]) -> str:
        return f"text of {args['n']}"

    async def ask(job: LaneJob, args: dict[str, Any]) -> Request:
        seen.append((job.stage, job.attempt, job.claim_seq, job.result("fetch")))
        return Request(Route("acme", "small", "fake"), "Criticise it.", job.result("fetch"))

    staged.lane("llm", build=ask, accept=accept)
    await lane.app.sync_types()
    job_id = await lane.app.enqueue("review", {"n": 7})

    await lane.app.run_function("review_batch_submitter", insecure=True)

    assert seen == [("llm", 1, 1, "text of 7")]
    row = await lane.job(job_id)
    assert (row["status"], row["stage"]) == ("batch_submitted", "llm")
    assert lane.provider.batches[0].requests()[0]["text"] == "text of 7"
    assert (await lane.batch())["stage"] == "llm"


@dataclass
class Letter:
    """Arguments with a shape."""

    text: str


async def test_arguments_come_as_build_declares_them(make_lane: MakeLane) -> None:
    def typed(_job: Job, args: Letter) -> Request:
        return Request(Route("acme", "small", "fake", execution=Execution.ASYNC), "Rewrite.", args.text)

    lane = await make_lane(lane={"build": typed})
    await lane.app.enqueue(TYPE, Letter("dear all"))

    await lane.submitted()

    assert [call.text for call in lane.provider.calls] == ["dear all"]


async def test_a_build_that_returns_something_else_is_told_so(make_lane: MakeLane) -> None:
    lane = await make_lane(lane={"build": lambda _job, _args: "a question"}, attempts=1)
    (job_id,) = await lane.fill(1)

    await lane.submitted()

    message = (await lane.job(job_id))["last_error_message"]
    assert "must return a Request, not str" in message


async def test_a_worker_without_a_lot_says_where_such_jobs_belong(dsn: str) -> None:
    app = Penstock(dsn)
    app.lane(TYPE, build=build, accept=accept, attempts=1)
    async with Harness(app) as harness:
        job_id = await harness.enqueue(TYPE, {"n": 1})
        await harness.drain()
        message = await app.pool.fetchval("select last_error_message from penstock.jobs where job_id = $1", job_id)

    assert "only its submitter can do" in message


async def test_a_plain_handler_may_ask_a_model_too(dsn: str, make_lane: MakeLane) -> None:
    lane: Lane = await make_lane()
    lane.provider.answer = lambda _request: Answer("42", usage=Usage(1, 1))
    answers: list[str] = []

    @lane.app.job("curious", dispatch="scheduled")
    async def curious(job: Job, args: dict[str, Any]) -> None:
        answers.append((await job.ask(build(job, {**args, "execution": "async"}))).text)

    await lane.app.sync_types()
    await lane.app.enqueue(curious, {"n": 1})
    await lane.app.run_function("curious", insecure=True)

    assert answers == ["42"]


async def test_closing_the_application_closes_its_adapters(lane: Lane) -> None:
    made = lane.app.adapters.get(Route("acme", "small", "fake"))
    await lane.app.close()

    assert isinstance(made, FakeAdapter)
    assert made.closed
