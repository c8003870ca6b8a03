"""The collector on a good day: polled, read, matched, judged, stored, each job by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import Failed, FailureClass
from penstock.contract.calls import Answer
from penstock.engine.batches.items import gather
from penstock.engine.batches.lane import LaneSchedule
from penstock.engine.retention import prune
from penstock.providers.port import ItemResult, Phase
from penstock.store.batch_items import Name
from tests.engine.batches.conftest import COLLECTOR, MakeLane
from tests.engine.batches.returning import Home, all_answers, answer, error, make_home, shuffled, store
from tests.support.fake_provider import FakeBatch


@pytest.fixture
async def home(make_lane: MakeLane) -> Home:
    return await make_home(make_lane, lane={"persist": store})


@pytest.mark.contract("Q-75", "A-41", "A-96")
async def test_a_good_item_completes_its_job_and_a_bad_one_fails_its_own(home: Home) -> None:
    good, bad = await home.sent(2)

    def lines(batch: FakeBatch) -> list[ItemResult]:
        first, second = all_answers(batch)
        return [first, error(second.custom_id, FailureClass.POLICY_REJECTED, retryable=False)]

    home.provider.lines = lines
    run = await home.collected()

    assert await home.codes([good, bad]) == [("completed", None), ("failed", "POLICY_REJECTED")]
    assert await home.outputs() == {good: "re: letter 0"}
    assert (run.claimed, run.succeeded, run.failed) == (2, 1, 1)
    assert (await home.letter(bad))["error_class"] == "POLICY_REJECTED"
    assert (await home.batch())["state"] == "collected"


@pytest.mark.contract("Q-76")
async def test_every_job_of_a_batch_keeps_its_own_trail(home: Home) -> None:
    ids = await home.sent(3)

    await home.collected()

    for job_id in ids:
        trail = await home.owner.fetch("select to_status from penstock.job_events where job_id = $1 order by 1", job_id)
        assert sorted(row["to_status"] for row in trail) == ["batch_submitted", "completed", "processing", "queued"]


@pytest.mark.contract("A-55", "A-57", "L-53")
async def test_a_middle_item_that_fails_leaves_its_neighbours_as_they_are(home: Home) -> None:
    ids = await home.sent(5)

    def lines(batch: FakeBatch) -> list[ItemResult]:
        found = all_answers(batch)
        found[2] = error(found[2].custom_id, FailureClass.SCHEMA_INVALID, retryable=False)
        return found

    home.provider.lines = lines
    await home.collected()

    kept = {job_id: f"re: letter {n}".encode() for n, job_id in enumerate(ids) if n != 2}
    assert {job_id: text.encode() for job_id, text in (await home.outputs()).items()} == kept
    assert [status for status, _ in await home.codes(ids)] == [
        "completed", "completed", "failed", "completed", "completed",
    ]  # fmt: skip


@pytest.mark.contract("A-57", "L-50")
async def test_results_in_another_order_land_on_their_own_jobs(home: Home) -> None:
    ids = await home.sent(20)
    home.provider.lines = shuffled(7)

    await home.collected()

    assert await home.outputs() == {job_id: f"re: letter {n}" for n, job_id in enumerate(ids)}


@pytest.mark.contract("A-57")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations(range(8)), st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))
async def test_lines_are_matched_by_name_whatever_their_order(
    order: list[int], absent: set[int], doubled: set[int]
) -> None:
    names = {f"id-{n}": Name(n, open=True) for n in range(8)}
    given_out = [n for n in order if n not in absent]
    given_out += [n for n in order if n in doubled and n not in absent]

    async def results() -> Any:
        for n in given_out:
            yield answer(f"id-{n}", f"text {n}")
        yield answer("id-99", "nobody's")

    sheet = await gather(results(), names)

    found = {name: line.unpack().answer for name, line in sheet.lines.items()}
    assert {name: said.text for name, said in found.items() if said} == {
        f"id-{n}": f"text {n}" for n in range(8) if n not in absent
    }
    assert (sheet.unknown, sheet.found, sheet.doubled) == (1, 8 - len(absent), len(doubled - absent))


@pytest.mark.contract("L-50")
async def test_homes_and_languages_in_one_batch_are_settled_each_for_itself(home: Home) -> None:
    first = await home.fill(1, home="a", target_locale="de-DE")
    second = await home.fill(1, first=1, home="b", target_locale="es-ES")
    await home.submitted()
    one, two = await home.batches()
    await home.owner.execute(
        "update penstock.batch_items set batch_item_index = 1 where batch_id = $1", two["batch_id"]
    )
    await home.owner.execute(
        "update penstock.batch_items set batch_id = $1 where batch_id = $2", one["batch_id"], two["batch_id"]
    )
    both = [*home.provider.batches[0].lines, *home.provider.batches[1].lines]
    home.provider.batches[0].lines = both
    await home.owner.execute("delete from penstock.batches where batch_id = $1", two["batch_id"])

    await home.collected()

    assert await home.outputs() == {first[0]: "re: letter 0", second[0]: "re: letter 1"}


@pytest.mark.contract("L-47", "A-94")
async def test_the_steps_of_a_job_come_in_their_order(make_lane: MakeLane) -> None:
    steps: list[str] = []

    def accept(job: Any, _args: Any, said: Answer) -> str:
        steps.append(f"accept {job.stage} {job.attempt} {job.claim_seq}")
        return said.text

    async def persist(job: Any, args: Any, result: str, connection: Any) -> None:
        status = await connection.fetchval("select status from penstock.jobs where job_id = $1", job.job_id)
        steps.append(f"persist while {status}")
        await store(job, args, result, connection)

    home = await make_home(make_lane, lane={"accept": accept, "persist": persist})
    (job_id,) = await home.fill(1)
    await home.submitted()
    parked = await home.job(job_id)
    steps.append(f"{parked['status']} in {parked['provider_batch_id']}")
    await home.collected()

    row = await home.job(job_id)
    assert steps == ["batch_submitted in pb_1", "accept run 1 1", "persist while batch_submitted"]
    assert row["status"] == "completed"
    assert row["finished_at"] is not None


@pytest.mark.contract("A-94", "A-62", "L-55")
@pytest.mark.parametrize("code", ["SCHEMA_INVALID", "LEXICON_BLOCKED", "LOCALE_MISMATCH", "CONFIG_INVALID"])
async def test_an_answer_that_its_type_refuses_stores_nothing_and_is_not_tried_again(
    make_lane: MakeLane, code: str
) -> None:
    def accept(_job: Any, _args: Any, _answer: Answer) -> str:
        raise Failed(FailureClass(code))

    home = await make_home(make_lane, lane={"accept": accept, "persist": store})
    (job_id,) = await home.sent(1)

    await home.collected()

    assert await home.codes([job_id]) == [("failed", code)]
    assert await home.outputs() == {}
    assert (await home.letter(job_id))["reason"] == "non_retryable"


@pytest.mark.contract("A-98")
async def test_each_item_keeps_its_own_time_and_its_own_end(home: Home) -> None:
    await home.sent(2)

    await home.collected()

    first, second = await home.items()
    assert (second["provider_at"] - first["provider_at"]).total_seconds() == 1
    assert (await home.now() - first["settled_at"]).total_seconds() < 60
    assert [item["state"] for item in (first, second)] == ["completed", "completed"]


@pytest.mark.contract("Q-82")
async def test_a_collector_without_open_batches_is_skipped(home: Home) -> None:
    assert (await home.collect()).skipped


@pytest.mark.contract("C-25")
async def test_a_run_that_fills_its_cap_is_followed_by_another_at_once(make_lane: MakeLane) -> None:
    tight = LaneSchedule(collector_cap=6, submit_every=timedelta(minutes=15), collect_every=timedelta(minutes=30))
    home = await make_home(make_lane, drain_cap=2, schedule=tight)
    for first in range(0, 8, 2):
        await home.fill(2, first=first)
        await home.submitted()

    await home.collect()

    assert await home.statuses() == {"completed": 8}
    runs = await home.owner.fetch(
        "select trigger, claimed_count from penstock.runs where function = $1 order by started_at", COLLECTOR
    )
    assert [tuple(run) for run in runs] == [("schedule", 6), ("follow_up", 2)]


@pytest.mark.contract("C-25", "Q-85")
async def test_a_run_takes_no_more_items_than_its_cap_even_of_one_batch(make_lane: MakeLane) -> None:
    tight = LaneSchedule(collector_cap=6, submit_every=timedelta(minutes=15), collect_every=timedelta(minutes=30))
    home = await make_home(make_lane, drain_cap=2, schedule=tight)
    for first in range(0, 8, 2):
        await home.fill(2, first=first)
        await home.submitted()
    one, *others = await home.batches()
    for n, batch in enumerate(others, start=1):
        await home.owner.execute(
            "update penstock.batch_items set batch_id = $1, batch_item_index = batch_item_index + $3 "
            "where batch_id = $2",
            one["batch_id"], batch["batch_id"], 2 * n,
        )  # fmt: skip
        home.provider.batches[0].lines = [*home.provider.batches[0].lines, *home.provider.batches[n].lines]
        await home.owner.execute("delete from penstock.batches where batch_id = $1", batch["batch_id"])

    run = await home.collected()

    assert run.claimed == 6
    assert await home.statuses() == {"completed": 6, "batch_submitted": 2}
    assert (await home.batch())["state"] == "submitted"
    await home.collected()
    assert await home.statuses() == {"completed": 8}


async def test_a_batch_that_runs_is_asked_after_less_and_less_often(home: Home) -> None:
    await home.sent(1)
    home.provider.phase = Phase.RUNNING
    waits = []
    for minutes in (0, 30, 120, 600):
        await home.pass_time(minutes=minutes)
        await home.collected()
        row = await home.batch()
        waits.append((row["next_poll_at"] - row["polled_at"]).total_seconds())

    assert waits[0] == 5
    assert waits == sorted(waits)
    assert waits[-1] == 15 * 60
    assert await home.states() == ["open"]


async def test_a_collector_needs_no_more_than_the_rights_of_a_worker(
    make_lane: MakeLane, role_dsn: Callable[[str], str]
) -> None:
    home = await make_home(make_lane, daily_spend_cap="5")
    ids = await home.sent(3)

    def lines(batch: FakeBatch) -> list[ItemResult]:
        first, second, third = all_answers(batch)
        return [
            first,
            error(second.custom_id, FailureClass.SCHEMA_INVALID, retryable=False),
            error(third.custom_id, FailureClass.UPSTREAM_5XX, retryable=True),
        ]

    home.provider.lines = lines
    done = await home.collect(dsn=role_dsn("penstock_worker"))

    assert done.error is None
    assert [status for status, _ in await home.codes(ids)] == ["completed", "failed", "queued"]
    assert (await home.batch())["files_deleted_at"] is not None


@pytest.mark.contract("C-67")
async def test_items_leave_with_their_jobs_and_a_batch_when_its_last_job_is_gone(make_lane: MakeLane) -> None:
    home = await make_home(make_lane, keep_finished=timedelta(days=5))
    done, waits = await home.sent(2)
    home.provider.lines = lambda batch: [
        all_answers(batch)[0],
        error(all_answers(batch)[1].custom_id, FailureClass.UPSTREAM_5XX, retryable=True),
    ]
    await home.collected()
    await home.pass_time(days=100)

    await prune(home.app.pool, home.app.settings)
    assert [item["job_id"] for item in await home.items()] == [waits]
    assert len(await home.batches()) == 1
    assert {effect["job_id"] for effect in await home.effects()} == {waits}
    assert done not in {row["job_id"] for row in await home.jobs()}

    await home.owner.execute("select penstock.cancel($1, 'me', 'old')", waits)
    await home.pass_time(days=300)
    await prune(home.app.pool, home.app.settings)

    assert (await home.items(), await home.batches(), await home.effects()) == ([], [], [])
    assert await home.owner.fetchval("select count(*) from penstock.spend") == 0
