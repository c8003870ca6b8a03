"""Faults on whole batches: what a collector has to survive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai as sdk
import pytest
from google.genai.types import JobState

from penstock.emulator import Emulator
from tests.emulator import test_anthropic as claude
from tests.emulator import test_gemini as google
from tests.emulator.test_openai import SUBMISSION, submit
from tests.support.emulator import BATCH_SECONDS, by_custom_id, openai_lines

if TYPE_CHECKING:
    from anthropic import Anthropic
    from google.genai import Client
    from openai import OpenAI
    from openai.types import Batch

TEN = {f"item-{number}" for number in range(10)}


def ended(client: OpenAI, emulator: Emulator, count: int = 10) -> Batch:
    batch = submit(client, openai_lines(count))
    emulator.advance(BATCH_SECONDS)
    return client.batches.retrieve(batch.id)


def lines(client: OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id
    return [json.loads(line) for line in client.files.content(file_id).read().splitlines()]


def ids(client: OpenAI, file_id: str | None) -> list[str]:
    return [line["custom_id"] for line in lines(client, file_id)]


def counts(batch: Batch) -> tuple[int, int, int]:
    assert batch.request_counts is not None
    return batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed


def test_items_can_be_missing(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("missing", items=[0, -1])
    batch = ended(openai, emulator)
    assert set(ids(openai, batch.output_file_id)) == TEN - {"item-0", "item-9"}
    assert batch.error_file_id is None
    assert counts(batch) == (10, 10, 0)


def test_results_can_belong_to_nobody(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("foreign", custom_ids=["somebody-else-1"], times=1)
    assert set(ids(openai, ended(openai, emulator).output_file_id)) == TEN | {"somebody-else-1"}
    emulator.faults.add("foreign", count=3)
    assert len(set(ids(openai, ended(openai, emulator).output_file_id)) - TEN) == 3


def test_an_item_can_be_there_twice(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("duplicate", items=[3])
    emulator.faults.add("duplicate", items=[5], differs=True)
    found = lines(openai, ended(openai, emulator).output_file_id)
    assert len(found) == 12
    same = [line for line in found if line["custom_id"] == "item-3"]
    other = [line for line in found if line["custom_id"] == "item-5"]
    assert same[0] == same[1]
    assert other[0]["response"]["body"]["output"] != other[1]["response"]["body"]["output"]


def test_the_order_can_be_another(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("shuffle")
    batch = ended(openai, emulator)
    found = ids(openai, batch.output_file_id)
    assert (set(found), found == sorted(found)) == (TEN, False)
    assert found == ids(openai, batch.output_file_id)


def test_status_zero_stands_in_the_error_file_and_the_counts_know_nothing(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("status_zero", items={"every": 5})
    batch = ended(openai, emulator)
    bad = lines(openai, batch.error_file_id)
    assert [line["custom_id"] for line in bad] == ["item-0", "item-5"]
    assert bad[0]["response"] == {"status_code": 0, "request_id": "", "body": {}}
    assert bad[0]["error"] is None
    assert counts(batch) == (10, 10, 0)


def test_items_can_be_refused(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("item_error", items=2, status=429, code="rate_limit_exceeded", message="Slow down.")
    batch = ended(openai, emulator)
    bad = by_custom_id(openai.files.content(batch.error_file_id or "").read())
    assert set(bad) == {"item-0", "item-1"}
    assert bad["item-0"]["response"]["status_code"] == 429
    assert bad["item-0"]["response"]["body"]["error"]["code"] == "rate_limit_exceeded"
    assert counts(batch) == (10, 8, 2)


def test_everything_can_be_in_the_error_file(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("all_errors", status=500)
    batch = ended(openai, emulator)
    assert (batch.status, batch.output_file_id) == ("completed", None)
    assert set(ids(openai, batch.error_file_id)) == TEN
    assert counts(batch) == (10, 0, 10)


def test_a_completed_batch_can_have_no_file_at_all(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("no_output")
    batch = ended(openai, emulator)
    assert (batch.status, batch.output_file_id, batch.error_file_id) == ("completed", None, None)


def test_file_ids_can_be_empty_strings(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("empty_error_file_id")
    batch = ended(openai, emulator)
    assert batch.error_file_id == ""
    emulator.faults.add("empty_output_file_id")
    assert ended(openai, emulator).output_file_id == ""


def test_a_line_can_be_cut_in_the_middle(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("broken_line", items=[4])
    raw = openai.files.content(ended(openai, emulator).output_file_id or "").read().splitlines()
    assert len(raw) == 10
    with pytest.raises(json.JSONDecodeError):
        json.loads(raw[4])


def test_an_expired_batch_has_paid_results_and_counts_that_lie(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("expire", done=4)
    emulator.faults.add("counts", total=10, completed=1, failed=0)
    emulator.faults.add("item_error", items=[0], status=500)
    batch = ended(openai, emulator)
    assert (batch.status, counts(batch)) == ("expired", (10, 1, 0))
    assert ids(openai, batch.output_file_id) == ["item-1", "item-2", "item-3"]
    errors = by_custom_id(openai.files.content(batch.error_file_id or "").read())
    assert errors["item-0"]["response"]["status_code"] == 500
    assert errors["item-9"]["error"]["code"] == "batch_expired"
    assert errors["item-9"]["response"] is None


def test_a_cancelled_batch_can_lose_items(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("cancelled", done=4)
    batch = ended(openai, emulator, 8)
    assert (batch.status, len(ids(openai, batch.output_file_id)), batch.error_file_id) == ("cancelled", 4, None)
    assert counts(batch) == (8, 4, 0)


def test_a_cancel_keeps_what_the_script_says(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("cancel_keeps", done=3, listed=True)
    batch = submit(openai, openai_lines(10))
    openai.batches.cancel(batch.id)
    done = openai.batches.retrieve(batch.id)
    assert len(ids(openai, done.output_file_id)) == 3
    assert {line["error"]["code"] for line in lines(openai, done.error_file_id)} == {"batch_cancelled"}


def test_a_batch_can_fail_on_a_line_or_on_none(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("fail", line=7, code="invalid_value", times=1)
    batch = ended(openai, emulator)
    assert batch.errors is not None
    assert batch.errors.data is not None
    assert (batch.status, batch.errors.data[0].line, batch.errors.data[0].code) == ("failed", 7, "invalid_value")
    emulator.faults.add("token_limit")
    batch = ended(openai, emulator)
    assert batch.errors is not None
    assert batch.errors.data is not None
    assert (batch.errors.data[0].line, batch.errors.data[0].code) == (None, "token_limit_exceeded")
    assert counts(batch) == (0, 0, 0)


@pytest.mark.parametrize("state", ["validating", "in_progress", "finalizing"])
def test_a_stuck_batch_is_freed_by_a_cancel_only(openai: OpenAI, emulator: Emulator, state: str) -> None:
    emulator.faults.add("stuck", state=state)
    batch = ended(openai, emulator)
    emulator.advance(3 * 86_400)
    assert openai.batches.retrieve(batch.id).status == state
    openai.batches.cancel(batch.id)
    assert openai.batches.retrieve(batch.id).status == "cancelled"


def test_a_cancel_can_be_stuck_too(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("stuck", state="cancelling")
    batch = submit(openai, openai_lines(1))
    openai.batches.cancel(batch.id)
    emulator.advance(86_400)
    assert openai.batches.retrieve(batch.id).status == "cancelling"


def test_the_first_polls_can_find_nothing(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("not_found", polls=2)
    batch = submit(openai, openai_lines(1))
    for _ in range(2):
        with pytest.raises(sdk.NotFoundError):
            openai.batches.retrieve(batch.id)
    assert openai.batches.retrieve(batch.id).id == batch.id


def test_a_batch_can_vanish(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("vanish", after=30)
    batch = submit(openai, openai_lines(1))
    assert openai.batches.retrieve(batch.id).id == batch.id
    emulator.advance(30)
    with pytest.raises(sdk.NotFoundError):
        openai.batches.retrieve(batch.id)
    assert list(openai.batches.list()) == []


def test_lists_can_be_late(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("list_delay", seconds=20, token=SUBMISSION)
    batch = submit(openai, openai_lines(1))
    assert list(openai.batches.list()) == []
    assert openai.batches.retrieve(batch.id).id == batch.id
    emulator.advance(20)
    assert [found.id for found in openai.batches.list()] == [batch.id]


def test_a_batch_can_end_in_a_state_that_nobody_knows(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("state", word="archived")
    assert str(ended(openai, emulator).status) == "archived"


def test_a_running_batch_can_be_given_a_fault(openai: OpenAI, emulator: Emulator) -> None:
    batch = submit(openai, openai_lines(10))
    emulator.batch(batch.id).plan.add("missing", items=5)
    emulator.advance(BATCH_SECONDS)
    assert len(ids(openai, openai.batches.retrieve(batch.id).output_file_id)) == 5


def test_items_are_chosen_by_id_text_and_chance(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("missing", custom_id="item-3$")
    emulator.faults.add("missing", text="text 4")
    assert set(ids(openai, ended(openai, emulator).output_file_id)) == TEN - {"item-3", "item-4"}
    emulator.faults.clear()
    emulator.faults.add("missing", probability=0.3)
    left = len(ids(openai, ended(openai, emulator, 1000).output_file_id))
    assert 600 < left < 800


def test_gemini_can_succeed_in_part_or_expire(gemini: Client, emulator: Emulator) -> None:
    emulator.faults.add("partially_succeeded", nth=1)
    emulator.faults.add("item_error", nth=1, items=3, status=503, message="Busy.")
    emulator.faults.add("expire", nth=2)
    first, second = google.submit(gemini, google.lines(10)), google.submit(gemini, google.lines(10))
    emulator.advance(BATCH_SECONDS)
    done = google.poll(gemini, first)
    assert done.state == JobState.JOB_STATE_PARTIALLY_SUCCEEDED
    found = google.results(gemini, done)
    assert found["item-0"]["error"] == {"code": 14, "message": "Busy."}
    assert "response" in found["item-3"]
    expired = google.poll(gemini, second)
    assert (expired.state, expired.dest) == (JobState.JOB_STATE_EXPIRED, None)


def test_gemini_and_anthropic_lose_repeat_and_invent_items_too(
    gemini: Client, anthropic: Anthropic, emulator: Emulator
) -> None:
    emulator.faults.add("missing", items=1)
    emulator.faults.add("duplicate", items=[2])
    emulator.faults.add("foreign", custom_ids=["nobody"])
    job = google.submit(gemini, google.lines(5))
    batch = anthropic.messages.batches.create(requests=claude.requests(5))
    emulator.advance(BATCH_SECONDS)
    assert set(google.results(gemini, google.poll(gemini, job))) == {"item-1", "item-2", "item-3", "item-4", "nobody"}
    shown = [each.custom_id for each in anthropic.messages.batches.results(batch.id)]
    assert len(shown) == 6
    assert "nobody" in shown
    assert f"{claude.SUBMISSION}-0-1" not in shown


def test_items_can_end_on_their_own(anthropic: Anthropic, emulator: Emulator) -> None:
    emulator.faults.add("item_expired", items=[0])
    emulator.faults.add("item_canceled", items=[1])
    emulator.faults.add("status_zero", items=[2])
    batch = anthropic.messages.batches.create(requests=claude.requests(4))
    emulator.advance(BATCH_SECONDS)
    found = [result.type for result in claude.results(anthropic, batch).values()]
    assert found == ["expired", "canceled", "errored", "succeeded"]
