"""What goes out: the exact body of each adapter, in a single call and as a line of a batch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.contract.calls import Usage
from penstock.contract.custom_ids import custom_id
from tests.providers.kinds import ANTHROPIC, CHAT, GEMINI, KINDS, RESPONSES, Kind, each_kind
from tests.providers.support import BATCH, KEY, SCHEMA, Script, adapters, answer, request

BODIES: dict[str, dict[str, Any]] = {
    RESPONSES.name: {
        "model": "model-1",
        "input": "hello",
        "instructions": "translate",
        "max_output_tokens": 100,
        "store": False,
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}},
    },
    CHAT.name: {
        "model": "model-1",
        "messages": [{"role": "system", "content": "translate"}, {"role": "user", "content": "hello"}],
        "max_completion_tokens": 100,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
        },
    },
    GEMINI.name: {
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "systemInstruction": {"parts": [{"text": "translate"}]},
        "generationConfig": {
            "maxOutputTokens": 100,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
        },
    },
    ANTHROPIC.name: {
        "model": "model-1",
        "max_tokens": 100,
        "system": "translate",
        "messages": [{"role": "user", "content": "hello"}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    },
}
HEADERS = {
    RESPONSES.name: ("authorization", f"Bearer {KEY}"),
    CHAT.name: ("authorization", f"Bearer {KEY}"),
    GEMINI.name: ("x-goog-api-key", KEY),
    ANTHROPIC.name: ("authorization", f"Bearer {KEY}"),
}


@each_kind
@pytest.mark.contract("Q-72")
async def test_a_single_call_is_one_request_with_the_schema_and_the_key_in_its_header(kind: Kind) -> None:
    script = Script({kind.path: answer(kind.good('{"text": "bonjour"}'))})
    asked = request(kind.name)
    got = await adapters(script).get(asked.route).call(asked, seconds=5)

    assert len(script.requests) == 1
    sent = script.last
    sent.get("systemInstruction", {}).pop("role", None)  # the SDK adds one, the API ignores it
    assert sent == BODIES[kind.name]
    name, value = HEADERS[kind.name]
    assert script.requests[0].headers[name] == value
    assert KEY not in str(script.requests[0].url)
    assert (got.data, got.usage, got.model) == ({"text": "bonjour"}, Usage(11, 7), "model-1-2026")


@each_kind
@pytest.mark.contract("A-56", "C-66")
def test_each_line_holds_one_users_text_and_its_own_custom_id(kind: Kind) -> None:
    adapter = adapters(Script()).get(request(kind.name).route)
    canaries = [f"canary-{number}-é\u2028\n" for number in range(5)]
    lines = [
        adapter.line(custom_id(BATCH, number, 7 + number), request(kind.name, text=canary))
        for number, canary in enumerate(canaries)
    ]

    for number, line in enumerate(lines):
        assert b"\n" not in line
        assert [canary for canary in canaries if canary in _texts(json.loads(line))] == [canaries[number]]
        parsed = json.loads(line)
        assert parsed.get("custom_id", parsed.get("key")) == f"{BATCH.hex}-{number}-{7 + number}"
        assert sum(other.count(f"{BATCH.hex}-{number}-".encode()) for other in lines) == 1


def _texts(value: object) -> list[str]:
    """Every text in a parsed line."""
    if isinstance(value, dict):
        return [text for part in value.values() for text in _texts(part)]
    if isinstance(value, list):
        return [text for part in value for text in _texts(part)]
    return [value] if isinstance(value, str) else []


@pytest.mark.contract("A-40")
@pytest.mark.parametrize(
    ("kind", "envelope"),
    [
        (RESPONSES, {"custom_id": "c-1-1", "method": "POST", "url": "/v1/responses", "body": ...}),
        (CHAT, {"custom_id": "c-1-1", "method": "POST", "url": "/v1/chat/completions", "body": ...}),
        (GEMINI, {"key": "c-1-1", "request": ...}),
        (ANTHROPIC, {"custom_id": "c-1-1", "params": ...}),
    ],
    ids=str,
)
def test_a_line_is_the_same_body_in_the_providers_envelope(kind: Kind, envelope: dict[str, Any]) -> None:
    line = adapters(Script()).get(request(kind.name).route).line("c-1-1", request(kind.name))
    expected = {name: BODIES[kind.name] if value is ... else value for name, value in envelope.items()}
    assert json.loads(line) == expected


@each_kind
async def test_without_a_schema_the_answer_is_plain_text(kind: Kind) -> None:
    script = Script({kind.path: answer(kind.good("just text"))})
    asked = request(kind.name, schema=None, instructions="")
    got = await adapters(script).get(asked.route).call(asked, seconds=5)

    assert (got.text, got.data) == ("just text", None)
    assert b"schema" not in script.requests[0].content.lower()
    assert b"system" not in script.requests[0].content.lower()


def test_every_kind_is_in_these_tables() -> None:
    assert set(BODIES) == set(HEADERS) == {kind.name for kind in KINDS}
