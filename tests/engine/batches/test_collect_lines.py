"""Results that are not what they should be: the checklist of the ingester, and the ten scenarios that concern lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from penstock import Failed, FailureClass
from penstock.contract.classify import Failure
from penstock.contract.custom_ids import custom_id
from penstock.contract.keys import uuid7
from penstock.engine.batches import items, packing
from penstock.providers.port import BadLine, ItemResult, Phase
from penstock.store.batch_items import Name
from tests.engine.batches.conftest import MakeLane
from tests.engine.batches.returning import Home, all_answers, answer, error, make_home, store
from tests.support.fake_provider import FakeBatch


@pytest.fixture
async def home(make_lane: MakeLane) -> Home:
    return await make_home(make_lane, lane={"persist": store}, attempts=3)


def without(*numbers: int) -> Callable[[FakeBatch], list[ItemResult]]:
    """Answers for all items but these."""
    return lambda batch: [line for n, line in enumerate(all_answers(batch)) if n not in numbers]


@pytest.mark.contract("A-93", "C-37")
@pytest.mark.parametrize("stray", ["foreign", "a later claim", "nonsense", "another batch"])
async def test_a_line_of_nobody_is_dropped_with_one_alert(home: Home, stray: str) -> None:
    ids = await home.sent(2)
    batch_id = (await home.batch())["batch_id"]
    names = {
        "foreign": custom_id(batch_id, 99, 1),
        "a later claim": custom_id(batch_id, 0, 7),
        "nonsense": "drop table jobs",
        "another batch": custom_id(uuid7(), 0, 1),
    }
    home.provider.lines = lambda batch: [*all_answers(batch), answer(names[stray], "somebody else's words")]

    await home.collected()

    assert await home.outputs() == {ids[0]: "re: letter 0", ids[1]: "re: letter 1"}
    (alert,) = await home.alerts("batch_items_unknown")
    assert json.loads(alert["subject"])["items"] == 1
    assert "somebody" not in alert["subject"]


@pytest.mark.contract("A-97", "C-37")
async def test_a_completed_batch_that_lacks_a_line_fails_that_request_and_tells(home: Home) -> None:
    ids = await home.sent(4)
    home.provider.lines = without(2)

    await home.collected()

    assert await home.codes([ids[2]]) == [("failed", "BATCH_ITEM_MISSING")]
    assert await home.statuses() == {"completed": 3, "failed": 1}
    (alert,) = await home.alerts("batch_count_mismatch")
    subject = json.loads(alert["subject"])
    assert (subject["submitted"], subject["found"], subject["missing"]) == (4, 3, 1)


@pytest.mark.contract("C-37")
async def test_two_lines_that_say_the_same_are_one(home: Home) -> None:
    (job_id,) = await home.sent(1)
    home.provider.lines = lambda batch: all_answers(batch) * 2

    await home.collected()

    assert await home.outputs() == {job_id: "re: letter 0"}
    assert await home.alert_kinds() == ["batch_items_doubled"]


@pytest.mark.contract("C-37")
async def test_two_lines_that_differ_fail_their_request_and_nobody_guesses(home: Home) -> None:
    ids = await home.sent(2)

    def lines(batch: FakeBatch) -> list[ItemResult]:
        first, second = all_answers(batch)
        return [first, second, answer(first.custom_id, "another answer"), first]

    home.provider.lines = lines
    await home.collected()

    assert await home.codes(ids) == [("failed", "BATCH_ITEM_AMBIGUOUS"), ("completed", None)]
    assert await home.outputs() == {ids[1]: "re: letter 1"}
    assert await home.alert_kinds() == ["batch_items_doubled"]


@pytest.mark.contract("C-37", "A-61", "L-54")
@pytest.mark.parametrize("phase", [Phase.EXPIRED, Phase.CANCELLED])
async def test_a_batch_that_ended_early_gives_its_finished_items_and_tries_the_others_again(
    home: Home, phase: Phase
) -> None:
    ids = await home.sent(4)
    home.provider.phase, home.provider.lines = phase, without(1, 3)

    run = await home.collected()

    assert await home.codes(ids) == [
        ("completed", None), ("queued", "BATCH_EXPIRED"), ("completed", None), ("queued", "BATCH_EXPIRED"),
    ]  # fmt: skip
    assert [(await home.job(ids[n]))["attempt_count"] for n in (1, 3)] == [1, 1]
    assert await home.alert_kinds() == ["batch_ended_early"]
    assert (run.succeeded, run.requeued) == (2, 2)
    assert (await home.batch())["state"] == "collected"


@pytest.mark.contract("C-37", "A-96")
async def test_an_error_file_of_an_expired_batch_is_read_line_by_line(home: Home) -> None:
    """Scenario 3: not every line says batch_expired."""
    ids = await home.sent(3)
    home.provider.phase = Phase.EXPIRED

    def lines(batch: FakeBatch) -> list[ItemResult]:
        first, second, third = all_answers(batch)
        return [
            error(third.custom_id, FailureClass.BATCH_EXPIRED, retryable=True),
            error(second.custom_id, FailureClass.UPSTREAM_5XX, retryable=True),
            first,
        ]

    home.provider.lines = lines
    await home.collected()

    assert await home.codes(ids) == [("completed", None), ("queued", "UPSTREAM_5XX"), ("queued", "BATCH_EXPIRED")]


@pytest.mark.contract("C-37")
async def test_lines_are_trusted_and_counts_are_not(home: Home) -> None:
    """Scenarios 1 and 2: no output file, everything in the error file, and some of it with status 0."""
    ids = await home.sent(2)
    home.provider.files = (None, "err_1")
    home.provider.lines = lambda batch: [
        error(line.custom_id, FailureClass.UPSTREAM_5XX, retryable=True) for line in all_answers(batch)
    ]

    await home.collected()

    assert await home.codes(ids) == [("queued", "UPSTREAM_5XX")] * 2
    assert await home.alert_kinds() == []


@pytest.mark.contract("C-37")
async def test_a_batch_called_completed_without_any_file_never_passes_for_done(home: Home) -> None:
    """Fault 29."""
    ids = await home.sent(2)
    home.provider.files, home.provider.lines = (None, None), lambda _: []

    await home.collected()

    assert await home.codes(ids) == [("failed", "BATCH_ITEM_MISSING")] * 2
    assert await home.outputs() == {}


@pytest.mark.contract("A-55")
@pytest.mark.parametrize("after", [0, 1, 2])
async def test_a_download_that_breaks_marks_nothing_and_is_made_again(home: Home, after: int) -> None:
    """Scenario 5, fault 27."""
    ids = await home.sent(3)
    home.provider.breaks_after = after

    run = await home.collected()

    assert run.by_error == {"NETWORK_RESET": 1}
    assert (await home.statuses(), await home.outputs()) == ({"batch_submitted": 3}, {})
    assert (await home.batch())["poll_failures"] == 1

    home.provider.breaks_after = None
    await home.pass_time(minutes=15)
    await home.collected()
    assert await home.outputs() == {job_id: f"re: letter {n}" for n, job_id in enumerate(ids)}
    assert home.provider.downloads == 2


@pytest.mark.contract("C-37")
async def test_a_refused_batch_fails_the_lines_it_names_and_sends_the_others_back_uncharged(home: Home) -> None:
    """Scenario 8."""
    ids = await home.sent(3)
    home.provider.phase, home.provider.files = Phase.FAILED, (None, None)
    home.provider.bad_lines = (BadLine(1, Failure(FailureClass.SCHEMA_INVALID, retryable=False)),)

    await home.collected()

    assert await home.codes(ids) == [
        ("queued", "BATCH_FAILED"), ("failed", "SCHEMA_INVALID"), ("queued", "BATCH_FAILED"),
    ]  # fmt: skip
    assert [(await home.job(ids[n]))["attempt_count"] for n in (0, 2)] == [0, 0]
    assert await home.states() == ["requeued", "failed", "requeued"]
    assert home.provider.downloads == 0


@pytest.mark.contract("C-37")
async def test_a_batch_that_was_too_much_goes_back_whole_uncharged_and_waits(home: Home) -> None:
    ids = await home.sent(2)
    home.provider.phase, home.provider.files = Phase.FAILED, (None, None)
    pressure = Failure(FailureClass.RATE_LIMITED, retryable=True, retry_after=timedelta(hours=2))
    home.provider.bad_lines = (BadLine(None, pressure),)

    await home.collected()

    for job_id in ids:
        row = await home.job(job_id)
        assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("queued", 0, "RATE_LIMITED")
        assert row["run_at"] - row["updated_at"] == timedelta(hours=2)


@pytest.mark.contract("C-37")
async def test_a_batch_refused_for_its_account_is_nobodys_failure_and_opens_the_breaker(home: Home) -> None:
    ids = await home.sent(2)
    home.provider.phase, home.provider.files = Phase.FAILED, (None, None)
    home.provider.bad_lines = (BadLine(None, Failure(FailureClass.QUOTA_EXHAUSTED, retryable=False)),)

    await home.collected()

    assert await home.codes(ids) == [("queued", "QUOTA_EXHAUSTED")] * 2
    assert (await home.type())["breaker"] == "open"
    assert "breaker_opened" in await home.alert_kinds()


async def refused_until_it_ends(home: Home, ids: list[UUID]) -> list[tuple[int, str | None]]:
    """Attempts and code of the first job after each round in which its batch was refused."""
    rounds: list[tuple[int, str | None]] = []
    while len(rounds) < 8 and (await home.job(ids[0]))["status"] == "queued":
        await home.submitted()
        await home.collected()
        row = await home.job(ids[0])
        rounds.append((row["attempt_count"], row["last_error_code"]))
        await home.pass_time(hours=2)
    return rounds


@pytest.mark.contract("C-37")
@pytest.mark.parametrize(
    ("bad_lines", "counted"),
    [
        ((), [(1, "UPSTREAM_5XX"), (2, "UPSTREAM_5XX")]),
        ((BadLine(None, Failure(FailureClass.SCHEMA_INVALID, retryable=False)),), [(1, "SCHEMA_INVALID")]),
    ],
    ids=["no reason", "a reason that no retry mends"],
)
async def test_a_batch_refused_without_naming_a_line_goes_back_three_times_and_then_counts(
    make_lane: MakeLane, bad_lines: tuple[BadLine, ...], counted: list[tuple[int, str]]
) -> None:
    home = await make_home(make_lane, attempts=2)
    home.provider.phase, home.provider.files, home.provider.bad_lines = Phase.FAILED, (None, None), bad_lines
    ids = await home.fill(1)

    assert await refused_until_it_ends(home, ids) == [(0, "BATCH_REFUSED")] * 3 + counted


@pytest.mark.contract("C-37")
async def test_back_pressure_never_counts_however_often_it_comes(home: Home) -> None:
    home.provider.phase, home.provider.files = Phase.FAILED, (None, None)
    home.provider.bad_lines = (BadLine(None, Failure(FailureClass.RATE_LIMITED, retryable=True)),)
    await home.fill(1)

    for _ in range(6):
        await home.submitted()
        await home.collected()
        await home.pass_time(hours=2)

    (row,) = await home.jobs()
    assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("queued", 0, "RATE_LIMITED")


@pytest.mark.contract("C-37")
async def test_one_request_that_spoils_every_batch_ends_alone_and_the_others_complete(
    make_lane: MakeLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "PARTS", 2**40)  # one refusal parts all of them
    home = await make_home(make_lane, attempts=1)
    ids = await home.fill(20)
    spoiled = home.provider.phase_of

    def phase_of(batch: FakeBatch) -> Phase:
        return Phase.FAILED if any(asked["text"] == "letter 7" for asked in batch.requests()) else spoiled(batch)

    home.provider.phase_of = phase_of  # type: ignore[method-assign]  # the provider's own whim
    home.provider.files = (None, None)
    for _ in range(4):
        await home.submitted()
        await home.collected()
        await home.pass_time(hours=1)

    assert await home.statuses() == {"completed": 19, "failed": 1}
    assert (await home.job(ids[7]))["status"] == "failed"


@pytest.mark.contract("A-96")
async def test_good_items_of_a_failed_batch_complete_all_the_same(home: Home) -> None:
    ids = await home.sent(2)
    home.provider.phase, home.provider.lines = Phase.FAILED, without(1)

    await home.collected()

    assert await home.codes(ids) == [("completed", None), ("queued", "BATCH_REFUSED")]
    assert await home.outputs() == {ids[0]: "re: letter 0"}


@pytest.mark.contract("A-62", "L-55")
async def test_an_answer_with_text_that_cannot_be_stored_is_its_own_failure(make_lane: MakeLane) -> None:
    home = await make_home(make_lane, lane={"persist": store})
    ids = await home.sent(3)

    def lines(batch: FakeBatch) -> list[ItemResult]:
        first, second, third = all_answers(batch)
        return [first, answer(second.custom_id, "a \x00 in it"), answer(third.custom_id, "a lone \ud800")]

    home.provider.lines = lines
    await home.collected()

    first, *others = [status for status, _ in await home.codes(ids)]
    assert first == "completed"
    assert set(others) <= {"failed", "queued"}
    assert await home.outputs() == {ids[0]: "re: letter 0"}


async def test_no_word_of_an_answer_gets_into_a_letter_an_alert_or_an_error(make_lane: MakeLane) -> None:
    def accept(_job: Any, _args: Any, said: Any) -> str:
        raise ValueError(f"cannot take {said.text}")

    home = await make_home(make_lane, lane={"accept": accept}, attempts=1)
    (job_id,) = await home.sent(1, text="secret words")

    await home.collected()

    row, letter = await home.job(job_id), await home.letter(job_id)
    told = json.dumps([str(dict(row)["last_error_message"]), letter["last_stack"], letter["sanitized_context"]])
    alerts = await home.owner.fetch("select subject from penstock.alerts")
    assert "secret" not in told + str([alert["subject"] for alert in alerts])
    assert "accept" in letter["last_stack"]
    context = json.loads(letter["sanitized_context"])
    assert context["request_ids"]["batch_item_index"] == "0"
    assert context["stage"] == "run"


async def test_an_unreadable_result_that_an_operator_has_given_up_lets_its_jobs_try_again(home: Home) -> None:
    ids = await home.sent(1)
    home.provider.download_raises = Failed(FailureClass.SCHEMA_INVALID)
    await home.collected()
    assert await home.statuses() == {"batch_submitted": 1}
    assert await home.alert_kinds() == ["batch_poll_failed"]

    await home.owner.execute("update penstock.batches set cancel_asked_at = penstock.now(), next_poll_at = null")
    await home.collected()

    assert await home.codes(ids) == [("queued", "BATCH_EXPIRED")]


async def test_equal_lines_are_told_by_their_digest_alone(home: Home) -> None:
    ids = await home.sent(1)
    home.provider.lines = lambda batch: [*all_answers(batch), replace(all_answers(batch)[0], digest="")]

    await home.collected()

    assert await home.codes(ids) == [("failed", "BATCH_ITEM_AMBIGUOUS")]


async def test_a_large_batch_waits_in_less_memory_than_its_text_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "ROOMY", 1000)
    names = {f"id-{n}": Name(n, open=True) for n in range(50)}
    text = "ein längerer Brief \ud83d mit \x00 und allem \U0001f600 " * 40

    async def results() -> Any:
        for name in names:
            yield answer(name, text, data=[name])

    sheet = await items.gather(results(), names)

    held = sum(len(line._packed or b"") for line in sheet.lines.values())
    assert held < 50 * len(text) / 4
    found = [line.unpack().answer for line in sheet.lines.values()]
    assert all(said is not None and said.text == text for said in found)
    assert [said.data for said in found if said is not None] == [[name] for name in names]
