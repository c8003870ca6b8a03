"""Faults on single requests, as the real SDKs meet them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import anthropic as anthropic_sdk
import httpx2
import openai as sdk
import pytest
from google.genai import errors

from penstock.emulator import Emulator
from tests.emulator.conftest import openai_client
from tests.emulator.test_openai import submit
from tests.support.emulator import BATCH_SECONDS, openai_lines

if TYPE_CHECKING:
    from anthropic import Anthropic
    from google.genai import Client
    from openai import OpenAI

CREATE = {"method": "POST", "path": "/batches$"}


def ask(client: OpenAI) -> Any:
    return client.responses.create(model="gpt-test", input="hello")


def test_a_delayed_reply_comes_late_or_not_at_all(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("delay", seconds=0.3, times=1)
    began = time.monotonic()
    ask(openai)
    assert time.monotonic() - began >= 0.3
    emulator.faults.add("delay", seconds=30)
    with pytest.raises(sdk.APITimeoutError):
        ask(openai.with_options(timeout=0.1))


def test_a_dropped_request_was_not_acted_on(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("drop", **CREATE, nth=1)
    with pytest.raises(sdk.APIConnectionError):
        submit(openai, openai_lines(1))
    assert emulator.batches == []
    submit(openai, openai_lines(1))
    assert len(emulator.batches) == 1


@pytest.mark.parametrize("setting", ["early", "reset"])
def test_a_drop_can_come_before_the_body_or_as_a_reset(openai: OpenAI, emulator: Emulator, setting: str) -> None:
    emulator.faults.add("drop", path="/files$", **{setting: True})
    with pytest.raises(sdk.APIConnectionError):
        openai.files.create(purpose="batch", file=("x.jsonl", openai_lines(1)))
    assert emulator.files == []


def test_a_lost_reply_leaves_a_batch_behind(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("drop_after", **CREATE, nth=1)
    with pytest.raises(sdk.APIConnectionError):
        submit(openai, openai_lines(1))
    assert [batch.id for batch in openai.batches.list()] == [batch.id for batch in emulator.batches]
    assert len(emulator.batches) == 1
    (dropped,) = [call for call in emulator.calls if call.faults]  # noted when it ends, maybe after the list
    assert dropped.faults == ("drop_after",)
    assert dropped.status is None


def downloadable(client: OpenAI, emulator: Emulator) -> str:
    batch = submit(client, openai_lines(50))
    emulator.advance(BATCH_SECONDS)
    file_id = client.batches.retrieve(batch.id).output_file_id
    assert file_id is not None
    return file_id


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_download_that_breaks_off_under_a_promised_length_raises(
    openai: OpenAI, emulator: Emulator, framing: str
) -> None:
    file_id = downloadable(openai, emulator)
    emulator.faults.add("truncate", path="/content$", framing=framing, times=1)
    with pytest.raises((sdk.APIConnectionError, httpx2.RemoteProtocolError)):
        openai.files.content(file_id).read()
    assert len(openai.files.content(file_id).read().splitlines()) == 50


def test_a_close_delimited_download_breaks_off_without_an_error(openai: OpenAI, emulator: Emulator) -> None:
    file_id = downloadable(openai, emulator)
    emulator.faults.add("truncate", path="/content$", framing="close", after=1000, times=1)
    content = openai.files.content(file_id).read()
    assert len(content) == 1000 < openai.files.retrieve(file_id).bytes


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("rate_limited", 429, "rate_limit_exceeded"),
        ("quota", 429, "insufficient_quota"),
        ("server_error", 500, "server_error"),
        ("bad_gateway", 502, None),
        ("unavailable", 503, None),
        ("gateway_timeout", 504, None),
        ("overloaded", 529, None),
        ("unauthorized", 401, "invalid_api_key"),
        ("forbidden", 403, None),
        ("conflict", 409, None),
    ],
)
def test_openai_answers_with_an_error(
    openai: OpenAI, emulator: Emulator, kind: str, status: int, code: str | None
) -> None:
    emulator.faults.add(kind, provider="openai")
    with pytest.raises(sdk.APIStatusError) as raised:
        ask(openai)
    assert (raised.value.status_code, raised.value.code) == (status, code)


def test_a_rate_limit_says_when_to_come_back(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("rate_limited", retry_after=17, headers={"x-ratelimit-remaining-requests": 0})
    with pytest.raises(sdk.RateLimitError) as raised:
        ask(openai)
    assert raised.value.response.headers["retry-after"] == "17"
    assert raised.value.response.headers["x-ratelimit-remaining-requests"] == "0"


def test_a_bad_gateway_is_a_page(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("bad_gateway")
    with pytest.raises(sdk.InternalServerError) as raised:
        ask(openai)
    assert "<html>" in raised.value.response.text


def test_gemini_answers_with_its_own_errors(gemini: Client, emulator: Emulator) -> None:
    for kind, status, word in (
        ("rate_limited", 429, "RESOURCE_EXHAUSTED"),
        ("overloaded", 503, "UNAVAILABLE"),
        ("unauthorized", 400, "INVALID_ARGUMENT"),
        ("server_error", 500, "INTERNAL"),
    ):
        emulator.faults.add(kind, times=1)
        with pytest.raises(errors.APIError) as raised:
            gemini.models.generate_content(model="gemini-test", contents="x")
        assert (raised.value.code, raised.value.status) == (status, word)


def test_anthropic_answers_with_its_own_errors(anthropic: Anthropic, emulator: Emulator) -> None:
    for kind, status, word in (
        ("rate_limited", 429, "rate_limit_error"),
        ("overloaded", 529, "overloaded_error"),
        ("unauthorized", 401, "authentication_error"),
        ("server_error", 500, "api_error"),
    ):
        emulator.faults.add(kind, times=1)
        with pytest.raises(anthropic_sdk.APIStatusError) as raised:
            anthropic.messages.batches.list()
        assert (raised.value.status_code, raised.value.type) == (status, word)


def test_a_status_can_come_after_the_deed(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("status", status=500, act=True, json={"error": {"message": "oh"}}, **CREATE)
    with pytest.raises(sdk.InternalServerError):
        submit(openai, openai_lines(1))
    assert len(emulator.batches) == 1


@pytest.mark.parametrize(
    ("kind", "beginning"), [("html", "<html>"), ("broken_json", '{"id": "half'), ("empty_body", "")]
)
def test_status_200_can_be_no_answer(openai: OpenAI, emulator: Emulator, kind: str, beginning: str) -> None:
    emulator.faults.add(kind)
    raw = openai.responses.with_raw_response.create(model="gpt-test", input="x")
    assert raw.http_response.status_code == 200
    assert raw.http_response.text.startswith(beginning)
    with pytest.raises(json.JSONDecodeError):
        json.loads(raw.http_response.text)


def test_rules_choose_by_occurrence_and_by_content(openai: OpenAI, emulator: Emulator) -> None:
    emulator.faults.add("server_error", path="/responses$", nth=[2, 4])
    emulator.faults.add("unavailable", text="secret word")
    seen = []
    for _ in range(5):
        try:
            ask(openai)
            seen.append(200)
        except sdk.InternalServerError as error:
            seen.append(error.status_code)
    assert seen == [200, 500, 200, 500, 200]
    with pytest.raises(sdk.InternalServerError):
        openai.responses.create(model="gpt-test", input="the secret word")


def test_a_rule_finds_the_batch_that_holds_an_item(anthropic: Anthropic, emulator: Emulator) -> None:
    from tests.emulator.test_anthropic import SUBMISSION, requests

    emulator.faults.add("drop_after", method="POST", path="/batches$", custom_id=f"^{SUBMISSION}-2-")
    anthropic.messages.batches.create(requests=requests(2))
    with pytest.raises(anthropic_sdk.APIConnectionError):
        anthropic.messages.batches.create(requests=requests(3))


def test_chance_is_the_same_for_the_same_seed() -> None:
    first = drawn(7)
    assert first == drawn(7) != drawn(8)
    assert set(first) == {200, 500}


def drawn(seed: int) -> list[int]:
    with (
        Emulator(seed=seed) as emulator,
        openai_client(emulator.openai_base_url) as client,
    ):
        emulator.faults.add("server_error", probability=0.5)
        return [_status(client) for _ in range(12)]


def _status(client: OpenAI) -> int:
    try:
        client.models.retrieve("m")
    except sdk.InternalServerError as error:
        return error.status_code
    return 200


def test_a_rule_with_a_typing_error_is_refused(emulator: Emulator) -> None:
    with pytest.raises(ValueError, match="there is no fault 'dropp'"):
        emulator.faults.add("dropp")
    with pytest.raises(ValueError, match=r"knows no \['second'\]"):
        emulator.faults.add("delay", second=1)
    with pytest.raises(ValueError, match="there is no provider 'opennai'"):
        emulator.faults.add("delay", provider="opennai")
