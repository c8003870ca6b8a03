"""Adapters and emulator before other people's judgement; tests/support/third_parties.py tells whose.

Where npm is missing, or its packages cannot be had, these tests are skipped and say so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.contract.errors import Failed
from penstock.emulator import Emulator
from penstock.providers.port import Phase
from tests.providers.kinds import ANTHROPIC, CHAT, GEMINI, KINDS, RESPONSES, Kind, each_kind
from tests.providers.support import GOOD, SCHEMA
from tests.support.emulator import BATCH_SECONDS
from tests.support.exchanges import OK, Exchange, lacking, shape
from tests.support.talks import Talk, at_aimock, at_the_emulator
from tests.support.third_parties import Aimock, Asked, Claim, ask_with_the_sdks, judge, packages

Talks = Mapping[Kind, Talk]
Refused = Sequence[tuple[Kind, Claim, str]]
BATCHED = (RESPONSES, CHAT)  # aimock makes no other batches
FLAWS = ("refusal", "incomplete", "content_filter", "failed", "empty_answer")
STATUSES = (
    "rate_limited", "quota", "server_error", "unavailable", "gateway_timeout", "overloaded", "unauthorized",
    "forbidden", "conflict",
)  # fmt: skip
REFUSED: Mapping[str, Mapping[str, Any]] = {"fail": {}, "token_limit": {}}  # as a whole, which Anthropic never does
ENDS: Mapping[str, Mapping[str, Any]] = {
    "expire": {"done": 1},
    "cancelled": {"done": 1},
    "item_error": {"items": [0]},
    "item_expired": {"items": [0]},
    "item_canceled": {"items": [0]},
    "status_zero": {"items": [0]},
}


@pytest.fixture(scope="module", autouse=True)
def installed() -> Path:
    """Skips everything here where the third parties cannot be had."""
    return packages()


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    with Aimock(tmp_path_factory.mktemp("aimock"), GOOD) as server:
        yield server


@pytest.fixture(scope="module")
def talks() -> Talks:
    """Each adapter's conversation with the emulator, and with everything that it lets go wrong."""

    async def every() -> Talks:
        return {kind: await _talk(kind) for kind in KINDS}

    return asyncio.run(every())


async def _talk(kind: Kind) -> Talk:
    async with at_the_emulator(kind) as (made, emulator):
        await made.ask()
        await made.batch()
        await made.stopped()
        for fault in (*FLAWS, *STATUSES):
            emulator.faults.add(fault, times=1)
            with pytest.raises(Failed):
                await made.ask()
        for fault, settings in (ENDS if kind is ANTHROPIC else {**ENDS, **REFUSED}).items():
            emulator.faults.add(fault, **settings)
            await made.batch()
            emulator.faults.clear()
        made.asked = replace(made.asked, schema=None, instructions="")
        made.submission()
        await made.ask()
    return made


@pytest.fixture(scope="module")
def refused(talks: Talks, tmp_path_factory: pytest.TempPathFactory) -> Refused:
    """What the vendors' types forbid of all that went over the wire."""
    claims = [(kind, claim) for kind, made in talks.items() for claim in _requests(kind, made)]
    claims += [
        (kind, claim) for kind, made in talks.items() for each in made.exchanges for claim in _answers(kind, each)
    ]
    problems = judge(tmp_path_factory.mktemp("claims"), [claim for _, claim in claims])
    return [(*claims[number], said) for number, said in problems.items()]


# ------------------------------------------------------------ the vendors' types

GOOD_REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "openai POST /responses": {"model": "m", "input": "hello", "max_output_tokens": 5, "store": False},
    "openai POST /chat/completions": {"model": "m", "messages": [{"role": "user", "content": "hello"}]},
    "openai POST /batches": {"input_file_id": "f", "endpoint": "/v1/responses", "completion_window": "24h"},
    "anthropic POST /messages": {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]},
    "gemini POST /models/*:generateContent": {"contents": [{"parts": [{"text": "hello"}]}]},
}
WRONGS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("openai POST /responses", {"max_output_tokenz": 5}),
    ("openai POST /responses", {"max_output_tokens": "5"}),
    ("openai POST /responses", {"response_format": {"type": "json_object"}}),  # as chat has it
    ("openai POST /responses", {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}}),  # without a name
    ("openai POST /chat/completions", {"messages": [{"role": "boss", "content": "hello"}]}),
    ("openai POST /chat/completions", {"response_format": {"type": "json_schema", "schema": SCHEMA}}),
    ("openai POST /batches", {"completion_window": "48h"}),
    ("openai POST /batches", {"endpoint": "/v1/answers"}),
    ("openai POST /batches", {"metadata": {"attempt": 1}}),
    ("anthropic POST /messages", {"max_tokens": None}),
    ("anthropic POST /messages", {"messages": [{"role": "user", "text": "hello"}]}),
    ("anthropic POST /messages", {"output_config": {"format": {"type": "json", "schema": SCHEMA}}}),
    ("gemini POST /models/*:generateContent", {"generationConfig": {"max_output_tokens": 5}}),
    ("gemini POST /models/*:generateContent", {"systemInstruction": {"text": "translate"}}),
    ("gemini POST /somewhere", {}),
)


def test_the_judge_takes_what_is_right_and_refuses_each_thing_that_is_wrong(tmp_path: Path) -> None:
    right = [Claim("Requests", name, body) for name, body in GOOD_REQUESTS.items()]
    wrong = [Claim("Requests", name, {**GOOD_REQUESTS.get(name, {}), **change}) for name, change in WRONGS]
    refused = judge(tmp_path, [*right, *wrong])
    assert list(refused) == list(range(len(right), len(right) + len(wrong)))


@each_kind
def test_the_vendors_types_allow_every_request_of_an_adapter(kind: Kind, talks: Talks, refused: Refused) -> None:
    assert _told(refused, kind, "Requests") == []
    assert len({claim.name for claim in _requests(kind, talks[kind])}) > 3


@each_kind
def test_the_vendors_types_allow_every_answer_of_the_emulator(kind: Kind, talks: Talks, refused: Refused) -> None:
    assert _told(refused, kind, "Answers") + _told(refused, kind, "Errors") == []
    statuses = {each.status for each in talks[kind].exchanges}
    assert statuses >= {200, 400 if kind is GEMINI else 401, 403, 409, 429, 500, 503, 504}


def _told(refused: Refused, kind: Kind, table: str) -> list[str]:
    """What was said of this kind, each thing once."""
    return sorted({f"{claim.name}: {said}" for owner, claim, said in refused if (owner, claim.table) == (kind, table)})


def _requests(kind: Kind, made: Talk) -> list[Claim]:
    """Bodies, queries and lines."""
    sent = [Claim("Requests", each.operation, each.sent) for each in made.exchanges if each.sent is not None]
    sent += [Claim("Requests", each.operation, dict(each.query)) for each in made.exchanges if each.query]
    return sent + [Claim("Requests", _line(kind), json.loads(line)) for line in made.lines]


def _answers(kind: Kind, exchange: Exchange) -> list[Claim]:
    if exchange.status != OK:
        return [Claim("Errors", exchange.operation.partition(" ")[0], exchange.answered)]
    if exchange.lines:
        return [Claim("Answers", _line(kind, line), line) for line in exchange.lines]
    return [] if exchange.answered is None else [Claim("Answers", exchange.operation, exchange.answered)]


def _line(kind: Kind, line: Mapping[str, Any] | None = None) -> str:
    """What wire.ts calls a line of this kind; OpenAI's results say whether they are answers."""
    if kind not in BATCHED:
        return f"{kind.name.partition('_')[0]} line"
    if line and (line["response"] or {}).get("status_code") != OK:
        return "openai line unanswered"
    return "openai line /responses" if kind is RESPONSES else "openai line /chat/completions"


# ------------------------------------------------ the vendors' SDKs for JavaScript


def test_the_vendors_other_sdks_are_content_and_ask_as_our_adapters_do(talks: Talks, tmp_path: Path) -> None:
    with Emulator(finish_after=BATCH_SECONDS, frozen=True) as emulator:
        question = {"model": "model-1", "text": "hello", "instructions": "translate", "schema": SCHEMA, "tokens": 100}
        theirs = ask_with_the_sdks(tmp_path, emulator.url, question)
    ours = [each for made in talks.values() for each in made.exchanges]

    known = {each.operation for each in theirs}
    assert {each.operation for each in ours} - known == set()
    assert _with_a_body(ours) - _with_a_body(theirs) == set()
    # Of an upload's facts Google takes both spellings, and its SDKs for Python and JavaScript differ in them.
    for name in known - {"gemini POST /upload/files"}:
        sent = [shape(each.sent for each in made if each.operation == name) for made in (ours, theirs)]
        assert (name, lacking(*sent)) == (name, [])


def _with_a_body(requests: Sequence[Exchange | Asked]) -> set[str]:
    return {each.operation for each in requests if each.sent is not None}


# ------------------------------------------------------------------------- aimock


@each_kind
async def test_aimock_takes_a_call_and_its_answer_is_understood(kind: Kind, aimock: Aimock) -> None:
    async with at_aimock(kind, aimock) as made:
        got = await made.ask()
    assert got.data == json.loads(GOOD)
    assert [each.status for each in made.exchanges] == [OK]


@pytest.mark.parametrize("kind", BATCHED, ids=str)
async def test_aimock_takes_a_batch_and_its_results_are_understood(kind: Kind, aimock: Aimock) -> None:
    async with at_aimock(kind, aimock) as made:
        sent, state, items = await made.batch()
        await made.stopped()
    assert (state.phase, state.total, state.completed) == (Phase.COMPLETED, 2, 2)
    assert {item.custom_id for item in items} == {json.loads(line)["custom_id"] for line in sent.lines}
    assert [item.failure for item in items] == [None, None]
    assert {each.status for each in made.exchanges} == {OK}


@each_kind
async def test_the_emulator_leaves_out_nothing_that_aimock_answers(kind: Kind, talks: Talks, aimock: Aimock) -> None:
    async with at_aimock(kind, aimock) as theirs:
        await theirs.ask()
        if kind in BATCHED:
            await theirs.batch()
            await theirs.stopped()

    for name in {each.operation for each in theirs.exchanges}:
        answers = [shape(_bodies(made, name)) for made in (theirs, talks[kind])]
        assert (name, lacking(*answers)) == (name, [])


def _bodies(made: Talk, operation: str) -> list[Any]:
    found = [each for each in made.exchanges if (each.operation, each.status) == (operation, OK)]
    return [body for each in found for body in (each.lines or (each.answered,))]
