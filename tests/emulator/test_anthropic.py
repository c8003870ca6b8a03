"""Anthropic's own SDK talks to the emulator: messages, batches, results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anthropic as sdk
import pytest

from penstock.emulator import Emulator
from tests.emulator.conftest import anthropic_client
from tests.support.emulator import BATCH_SECONDS

if TYPE_CHECKING:
    from anthropic import Anthropic
    from anthropic.types.messages import MessageBatch

SUBMISSION = "6f1c2a34111142228333444455556666"
MODEL = "claude-test"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def requests(count: int, **more: Any) -> list[Any]:
    return [
        {
            "custom_id": f"{SUBMISSION}-{number}-1",
            "params": {
                "model": MODEL,
                "max_tokens": 200,
                "messages": [{"role": "user", "content": f"text {number}"}],
                **more,
            },
        }
        for number in range(count)
    ]


def results(client: Anthropic, batch: MessageBatch) -> dict[str, Any]:
    return {each.custom_id: each.result for each in client.messages.batches.results(batch.id)}


def test_a_batch_then_its_results(anthropic: Anthropic, emulator: Emulator) -> None:
    batch = anthropic.messages.batches.create(requests=requests(12))
    assert (batch.processing_status, batch.request_counts.processing) == ("in_progress", 12)
    assert batch.results_url is None
    emulator.advance(BATCH_SECONDS)

    ended = anthropic.messages.batches.retrieve(batch.id)

    assert (ended.processing_status, ended.request_counts.succeeded) == ("ended", 12)
    found = results(anthropic, ended)
    assert len(found) == 12
    assert "text 7." in found[f"{SUBMISSION}-7-1"].message.content[0].text
    assert anthropic.messages.batches.delete(batch.id).id == batch.id
    with pytest.raises(sdk.NotFoundError):
        anthropic.messages.batches.retrieve(batch.id)


def test_lists_are_newest_first_and_page(anthropic: Anthropic) -> None:
    made = [anthropic.messages.batches.create(requests=requests(1)).id for _ in range(5)]
    assert [batch.id for batch in anthropic.messages.batches.list(limit=2)] == made[::-1]


def test_a_cancelled_batch_ends_with_what_was_finished(anthropic: Anthropic, emulator: Emulator) -> None:
    batch = anthropic.messages.batches.create(requests=requests(10))
    emulator.advance(BATCH_SECONDS / 2)
    assert anthropic.messages.batches.cancel(batch.id).processing_status == "canceling"
    ended = anthropic.messages.batches.retrieve(batch.id)
    assert (ended.request_counts.succeeded, ended.request_counts.canceled) == (5, 5)
    kinds = [result.type for result in results(anthropic, ended).values()]
    assert (kinds.count("succeeded"), kinds.count("canceled")) == (5, 5)


def test_a_batch_that_runs_out_of_its_day_says_which_items_expired(anthropic: Anthropic, emulator: Emulator) -> None:
    emulator.faults.add("expire", done=3)
    batch = anthropic.messages.batches.create(requests=requests(10))
    emulator.advance(BATCH_SECONDS)
    ended = anthropic.messages.batches.retrieve(batch.id)
    assert (ended.request_counts.succeeded, ended.request_counts.expired) == (3, 7)


def test_a_bad_request_fails_its_own_item_only(anthropic: Anthropic, emulator: Emulator) -> None:
    bad: Any = {"custom_id": "bad", "params": {"model": MODEL}}
    batch = anthropic.messages.batches.create(requests=[*requests(1), bad])
    emulator.advance(BATCH_SECONDS)
    found = results(anthropic, batch)
    assert (found["bad"].type, found["bad"].error.error.type) == ("errored", "invalid_request_error")
    assert found[f"{SUBMISSION}-0-1"].type == "succeeded"


def test_a_create_is_refused_as_a_whole(anthropic: Anthropic) -> None:
    twice: Any = requests(1) * 2
    spaced: Any = [{**requests(1)[0], "custom_id": "a b"}]
    with pytest.raises(sdk.BadRequestError, match="unique"):
        anthropic.messages.batches.create(requests=twice)
    with pytest.raises(sdk.BadRequestError, match="pattern"):
        anthropic.messages.batches.create(requests=spaced)


def test_structured_output_fits_the_schema(anthropic: Anthropic) -> None:
    made = anthropic.messages.create(
        model=MODEL,
        max_tokens=200,
        system="Be kind.",
        messages=[{"role": "user", "content": "Stop shouting at me!!"}],
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
    )
    block = made.content[0]
    assert block.type == "text"
    assert "Stop shouting at me." in json.loads(block.text)["text"]
    assert (made.stop_reason, made.usage.input_tokens) == ("end_turn", 2 + 6)


def test_an_answer_longer_than_allowed_is_cut(anthropic: Anthropic) -> None:
    made = anthropic.messages.create(model=MODEL, max_tokens=2, messages=[{"role": "user", "content": "x"}])
    assert made.stop_reason == "max_tokens"


def test_a_wrong_key_and_a_wrong_model_are_refused() -> None:
    with Emulator(keys={"right": "ours"}, models=[MODEL]) as emulator:
        url = emulator.anthropic_base_url
        messages: Any = [{"role": "user", "content": "x"}]
        with (
            anthropic_client(url, "wrong") as client,
            pytest.raises(sdk.AuthenticationError),
        ):
            client.messages.create(model=MODEL, max_tokens=9, messages=messages)
        with anthropic_client(url, "right") as client:
            with pytest.raises(sdk.NotFoundError) as missing:
                client.messages.create(model="claude-none", max_tokens=9, messages=messages)
            assert missing.value.type == "not_found_error"


def test_the_submission_is_read_from_the_custom_ids(anthropic: Anthropic, emulator: Emulator) -> None:
    anthropic.messages.batches.create(requests=requests(2))
    assert emulator.state()["anthropic"]["tokens"][SUBMISSION]["live"] == 1
