"""What the emulated models say, and how an answer is spoiled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock.emulator import Emulator, Question, default_answer
from tests.emulator import test_anthropic as claude
from tests.emulator import test_gemini as google
from tests.emulator.test_openai import SCHEMA, submit
from tests.support.emulator import BATCH_SECONDS, by_custom_id, openai_lines

if TYPE_CHECKING:
    from anthropic import Anthropic
    from google.genai import Client
    from openai import OpenAI

FORMAT: Any = {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}


def answered(client: OpenAI, emulator: Emulator, kind: str, **settings: Any) -> dict[str, Any]:
    """The body of an item that *kind* has spoiled."""
    emulator.faults.add(kind, items=[0], **settings)
    batch = submit(client, openai_lines(2, text=FORMAT))
    emulator.advance(BATCH_SECONDS)
    done = client.batches.retrieve(batch.id)
    assert done.output_file_id is not None
    found = by_custom_id(client.files.content(done.output_file_id).read())
    assert found["item-1"]["response"]["body"]["status"] == "completed"
    return dict(found["item-0"]["response"]["body"])


def said(body: dict[str, Any]) -> Any:
    return body["output"][0]["content"][0]["text"]


@pytest.mark.parametrize("asked", [FORMAT, {}])
def test_a_response_repeats_the_format_that_was_asked_for(openai: OpenAI, asked: Any) -> None:
    body = openai.responses.with_raw_response.create(model="m", input="Hello", store=False, text=asked).http_response
    told = json.loads(body.content)
    assert (told["text"], told["store"]) == (asked or {"format": {"type": "text"}}, False)


def test_an_answer_can_be_a_refusal(openai: OpenAI, emulator: Emulator) -> None:
    body = answered(openai, emulator, "refusal")
    assert body["status"] == "completed"
    assert body["output"][0]["content"][0]["type"] == "refusal"


def test_an_answer_can_be_incomplete(openai: OpenAI, emulator: Emulator) -> None:
    body = answered(openai, emulator, "incomplete")
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    with pytest.raises(json.JSONDecodeError):
        json.loads(said(body))


def test_an_answer_can_be_filtered(openai: OpenAI, emulator: Emulator) -> None:
    body = answered(openai, emulator, "content_filter")
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})


def test_an_answer_can_say_that_it_failed(openai: OpenAI, emulator: Emulator) -> None:
    body = answered(openai, emulator, "failed", code="rate_limit_exceeded")
    assert (body["status"], body["error"]["code"]) == ("failed", "rate_limit_exceeded")


def test_an_answer_can_miss_its_schema_or_be_no_json(openai: OpenAI, emulator: Emulator) -> None:
    assert set(json.loads(said(answered(openai, emulator, "wrong_schema")))) == {"unexpected"}
    emulator.faults.clear()
    assert "no JSON" in said(answered(openai, emulator, "not_json"))
    emulator.faults.clear()
    assert not said(answered(openai, emulator, "empty_answer"))


def test_an_answer_can_be_in_another_language_huge_or_hold_a_nul(openai: OpenAI, emulator: Emulator) -> None:
    assert "Sprache" in json.loads(said(answered(openai, emulator, "wrong_language")))["text"]
    emulator.faults.clear()
    assert len(json.loads(said(answered(openai, emulator, "huge", bytes=300_000)))["text"]) >= 300_000
    emulator.faults.clear()
    assert "\x00" in json.loads(said(answered(openai, emulator, "nul")))["text"]


def test_single_calls_are_spoiled_in_each_providers_own_way(
    openai: OpenAI, gemini: Client, anthropic: Anthropic, emulator: Emulator
) -> None:
    emulator.faults.add("content_filter", where="call")
    blocked = gemini.models.generate_content(model="gemini-test", contents="x")
    assert (blocked.text, blocked.candidates) == (None, None)
    assert blocked.prompt_feedback is not None
    chat = openai.chat.completions.create(model="gpt-test", messages=[{"role": "user", "content": "x"}])
    assert (chat.choices[0].finish_reason, chat.choices[0].message.content) == ("content_filter", None)
    message = anthropic.messages.create(model="claude", max_tokens=9, messages=[{"role": "user", "content": "x"}])
    assert (message.stop_reason, message.content) == ("refusal", [])


def test_a_fault_that_chooses_items_leaves_single_calls_alone(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("empty_answer", items=[0])
    assert openai.responses.create(model="m", input="x").output_text


def test_gemini_and_anthropic_items_can_be_refused_or_cut(
    gemini: Client, anthropic: Anthropic, emulator: Emulator
) -> None:
    emulator.faults.add("refusal", items=[0])
    emulator.faults.add("incomplete", items=[1])
    job = google.submit(gemini, google.lines(2))
    batch = anthropic.messages.batches.create(requests=claude.requests(2))
    emulator.advance(BATCH_SECONDS)
    shown = google.results(gemini, google.poll(gemini, job))
    assert [shown[f"item-{n}"]["response"]["candidates"][0]["finishReason"] for n in (0, 1)] == ["SAFETY", "MAX_TOKENS"]
    assert [each.message.stop_reason for each in claude.results(anthropic, batch).values()] == ["refusal", "max_tokens"]


def test_a_canned_rule_answers_before_the_function(openai: OpenAI, emulator: Emulator) -> None:
    emulator.answers.add({"text": "Mehl"}, contains="flour")
    emulator.answers.add("a number", regex=r"\d+")
    emulator.answers.function = lambda question: {"asked": question.text}
    texts = [openai.responses.create(model="m", input=text).output_text for text in ("the flour", "12", "else")]
    assert texts == ['{"text":"Mehl"}', "a number", '{"asked":"else"}']


def test_an_item_is_answered_once_however_often_its_file_is_read(openai: OpenAI, emulator: Emulator) -> None:
    asked: list[str | None] = []

    def answer(question: Question) -> str:
        asked.append(question.custom_id)
        return "yes"

    emulator.answers.function = answer
    batch = submit(openai, openai_lines(3))
    emulator.advance(BATCH_SECONDS)
    file_id = openai.batches.retrieve(batch.id).output_file_id or ""
    assert openai.files.content(file_id).read() == openai.files.content(file_id).read()
    assert asked == ["item-0", "item-1", "item-2"]


def test_the_default_answer_fits_every_kind_of_schema() -> None:
    schema = {
        "$defs": {"day": {"type": "string", "format": "date"}},
        "type": "object",
        "properties": {
            "kind": {"const": "reply"},
            "mood": {"enum": ["warm", "cool"]},
            "day": {"$ref": "#/$defs/day"},
            "maybe": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 3}]},
            "short": {"type": ["string", "null"], "maxLength": 5},
            "parts": {
                "type": "array",
                "minItems": 2,
                "items": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
            },
            "share": {"type": "number", "minimum": 0, "maximum": 1},
            "all": {
                "allOf": [{"type": "object", "properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]
            },
        },
    }
    said = json.loads(default_answer(Question("openai", "m", "", "Hello", schema)))
    assert said["mood"] in {"warm", "cool"}
    assert len(said.pop("short")) == 5
    assert {name: said[name] for name in said if name != "mood"} == {
        "kind": "reply",
        "day": "2026-01-15",
        "maybe": 4,
        "parts": [{"ok": True}, {"ok": True}],
        "share": 0.5,
        "all": {"a": 1, "b": 2},
    }


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "next": {"$ref": "#"}}, "required": ["text"]}
    said = default_answer(Question("openai", "m", "", "Hello", schema))
    assert 5 < said.count("Hello") < 50


def test_a_json_envelope_is_answered_by_its_text() -> None:
    said = default_answer(Question("openai", "m", "", json.dumps({"id": "7", "text": "Where were you?!"})))
    assert "Where were you." in said
