"""Every way a call can go wrong ends in one class of the closed list, after one request and without a word of it."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from penstock.contract.classify import classify
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass as F
from penstock.providers.wire import MOST_BYTES
from tests.providers.kinds import ANTHROPIC, CHAT, GEMINI, RESPONSES, Kind, each_kind
from tests.providers.support import KEY, Reply, Script, adapters, answer, caused, request

OPENAI = (RESPONSES, CHAT)
EVERY = (RESPONSES, CHAT, GEMINI, ANTHROPIC)


NETWORK: list[tuple[str, Exception, F]] = [
    ("read timeout", httpx2.ReadTimeout("canary-message"), F.NETWORK_TIMEOUT),
    ("connect timeout", httpx2.ConnectTimeout("canary-message"), F.NETWORK_TIMEOUT),
    ("name not resolved", caused(httpx2.ConnectError("x"), socket.gaierror(-2, "x")), F.DNS_FAILURE),
    ("refused", caused(httpx2.ConnectError("x"), ConnectionRefusedError(111, "x")), F.NETWORK_RESET),
    ("reset", httpx2.ReadError("canary-message"), F.NETWORK_RESET),
    ("broke off", httpx2.RemoteProtocolError("canary-message"), F.NETWORK_RESET),
]
STATUSES: list[tuple[tuple[Kind, ...], int, str, F]] = [
    (EVERY, 408, "", F.NETWORK_TIMEOUT),
    (EVERY, 504, "", F.NETWORK_TIMEOUT),
    (EVERY, 500, "", F.UPSTREAM_5XX),
    (EVERY, 529, "", F.UPSTREAM_5XX),
    (EVERY, 599, "", F.UPSTREAM_5XX),
    (EVERY, 502, "", F.NETWORK_RESET),
    (EVERY, 503, "", F.NETWORK_RESET),
    (EVERY, 401, "", F.AUTH_DENIED),
    (EVERY, 403, "", F.AUTH_DENIED),
    (EVERY, 400, "", F.SCHEMA_INVALID),
    (EVERY, 422, "", F.SCHEMA_INVALID),
    (EVERY, 413, "", F.PAYLOAD_REJECTED),
    (EVERY, 409, "", F.CONFLICT),
    (EVERY, 404, "", F.NOT_FOUND),
    (EVERY, 302, "", F.CONFIG_INVALID),
    (EVERY, 418, "", F.RUNTIME_BUG),
    (EVERY, 429, "", F.RATE_LIMITED),
    (OPENAI, 429, "rate_limit_exceeded", F.RATE_LIMITED),
    (OPENAI, 503, "slow_down", F.RATE_LIMITED),
    (OPENAI, 429, "insufficient_quota", F.QUOTA_EXHAUSTED),
    (OPENAI, 429, "billing_hard_limit_reached", F.QUOTA_EXHAUSTED),
    (OPENAI, 429, "billing_not_active", F.QUOTA_EXHAUSTED),
    (OPENAI, 429, "organization_spend_limit_exceeded", F.QUOTA_EXHAUSTED),
    (OPENAI, 403, "unsupported_country_region_territory", F.CONFIG_INVALID),
    (OPENAI, 404, "model_not_found", F.CONFIG_INVALID),
    (OPENAI, 400, "context_length_exceeded", F.SCHEMA_INVALID),
    (OPENAI, 400, "content_policy_violation", F.POLICY_REJECTED),
    (OPENAI, 400, "content_filter", F.POLICY_REJECTED),
    ((GEMINI,), 429, "resource_exhausted", F.RATE_LIMITED),
    ((GEMINI,), 400, "failed_precondition", F.CONFIG_INVALID),
    ((GEMINI,), 400, "invalid_argument", F.SCHEMA_INVALID),
    ((GEMINI,), 503, "unavailable", F.NETWORK_RESET),
    ((GEMINI,), 403, "permission_denied", F.AUTH_DENIED),
    ((ANTHROPIC,), 529, "overloaded_error", F.UPSTREAM_5XX),
    ((ANTHROPIC,), 429, "rate_limit_error", F.RATE_LIMITED),
    ((ANTHROPIC,), 401, "authentication_error", F.AUTH_DENIED),
    ((ANTHROPIC,), 403, "permission_error", F.AUTH_DENIED),
    ((ANTHROPIC,), 413, "request_too_large", F.PAYLOAD_REJECTED),
    ((ANTHROPIC,), 400, "invalid_request_error", F.SCHEMA_INVALID),
    ((ANTHROPIC,), 402, "billing_error", F.QUOTA_EXHAUSTED),
]
ROWS = [(kind, status, code, expected) for kinds, status, code, expected in STATUSES for kind in kinds]


async def failure(kind: Kind, reply: Reply) -> Failed:
    script = Script({kind.path: reply})
    asked = request(kind.name, text="canary-text", instructions="canary-instructions")
    with pytest.raises(Failed) as raised:
        await adapters(script).get(asked.route).call(asked, seconds=5)
    assert len(script.requests) == 1, "the engine retries, nobody else does"
    return raised.value


@each_kind
@pytest.mark.parametrize(("error", "expected"), [row[1:] for row in NETWORK], ids=[row[0] for row in NETWORK])
@pytest.mark.contract("E-02")
async def test_a_broken_network_is_told_apart(kind: Kind, error: Exception, expected: F) -> None:
    assert (await failure(kind, error)).error_class is expected


@pytest.mark.parametrize(("kind", "status", "code", "expected"), ROWS, ids=str)
@pytest.mark.contract("E-01")
async def test_every_refusal_has_its_class(kind: Kind, status: int, code: str, expected: F) -> None:
    failed = await failure(kind, answer(kind.error(code, status), status))
    assert failed.error_class is expected
    assert failed.upstream_status == status


@each_kind
@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("content", [b"<html>Bad gateway</html>", b'{"broken": ', b"", b"[1]", b'"text"', b"\xff\xfe"])
@pytest.mark.parametrize("type_", ["application/json", "text/html"])
async def test_html_and_broken_json_are_the_upstreams_failure(
    kind: Kind, status: int, content: bytes, type_: str
) -> None:
    reply = httpx2.Response(status, content=content, headers={"content-type": type_})
    assert (await failure(kind, reply)).error_class is F.UPSTREAM_5XX


@each_kind
async def test_a_code_that_our_table_knows_is_kept_and_no_other(kind: Kind) -> None:
    codes = {"gemini_generate": "resource_exhausted", "anthropic_messages": "rate_limit_error"}
    code = codes.get(kind.name, "slow_down")
    known = await failure(kind, answer(kind.error(code, 429), 429))
    assert (known.upstream_status, known.upstream_code) == (429, code)
    assert (await failure(kind, answer(kind.error("canary_code", 429), 429))).upstream_code is None
    assert Failed(F.RATE_LIMITED, upstream_code="canary_code").upstream_code is None
    assert classify(known, idempotent=True).upstream_code == code


@each_kind
@pytest.mark.contract("E-03")
async def test_the_wait_that_a_provider_asks_for_goes_on(kind: Kind) -> None:
    failed = await failure(kind, answer(kind.error("", 429), 429, retry_after="17"))
    assert failed.retry_after == timedelta(seconds=17)


async def test_googles_own_form_of_a_wait_is_understood() -> None:
    body = GEMINI.error("resource_exhausted", 429)
    body["error"]["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "41s"}]
    assert (await failure(GEMINI, answer(body, 429))).retry_after == timedelta(seconds=41)


async def test_an_invalid_key_at_gemini_is_a_400_and_denied_all_the_same() -> None:
    body = GEMINI.error("invalid_argument", 400)
    body["error"]["details"] = [{"reason": "API_KEY_INVALID"}]
    assert (await failure(GEMINI, answer(body, 400))).error_class is F.AUTH_DENIED


async def test_a_model_that_openai_does_not_know_is_our_configuration() -> None:
    body = RESPONSES.error("", 400)
    body["error"]["param"] = "model"
    assert (await failure(RESPONSES, answer(body, 400))).error_class is F.CONFIG_INVALID


@each_kind
@pytest.mark.contract("A-82")
async def test_neither_key_nor_text_nor_the_providers_words_are_in_an_error(
    kind: Kind, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        failed = await failure(kind, answer(kind.error("", 400), 400))
    told = f"{failed!r} {failed} {failed.__cause__!r} {failed.__context__!r} {caplog.text}"
    for secret in (KEY, "canary"):
        assert secret not in told


@each_kind
async def test_a_provider_that_drips_is_cut_off_in_time(kind: Kind) -> None:
    class Slow(Script):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            await super().handle_async_request(request)
            import asyncio

            await asyncio.Event().wait()
            raise AssertionError

    asked = request(kind.name)
    with pytest.raises(Failed) as raised:
        await adapters(Slow({kind.path: answer({})})).get(asked.route).call(asked, seconds=0.05)
    assert raised.value.error_class is F.NETWORK_TIMEOUT


@each_kind
async def test_a_redirect_is_not_followed_with_the_key(kind: Kind) -> None:
    reply = httpx2.Response(307, headers={"location": "https://elsewhere.example/v1/x"}, content=json.dumps({}))
    failed = await failure(kind, reply)
    assert failed.error_class is F.CONFIG_INVALID


class Endless(httpx2.AsyncByteStream):
    """A body that goes on until nobody reads it any more."""

    read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(1000):
            self.read += 1_000_000
            yield b" " * 1_000_000


@each_kind
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_does_not_end_is_cut_off_before_it_fills_the_memory(kind: Kind, status: int) -> None:
    body = Endless()
    failed = await failure(kind, lambda request: httpx2.Response(status, stream=body, request=request))
    assert failed.error_class is F.SCHEMA_INVALID
    assert body.read <= MOST_BYTES + 1_000_000


REFUSED: list[tuple[Kind, dict[str, Any], F]] = [
    (CHAT, CHAT.good("x") | {"choices": []}, F.UPSTREAM_5XX),
    (GEMINI, {"candidates": []}, F.UPSTREAM_5XX),
    (GEMINI, {"promptFeedback": {"blockReason": "SAFETY"}}, F.POLICY_REJECTED),
    (ANTHROPIC, {"type": "message", "content": [], "stop_reason": "end_turn"}, F.UPSTREAM_5XX),
    (ANTHROPIC, {"type": "other"}, F.UPSTREAM_5XX),
]


@pytest.mark.parametrize(("kind", "body", "expected"), REFUSED)
async def test_a_200_without_an_answer_is_a_failure(kind: Kind, body: dict[str, Any], expected: F) -> None:
    assert (await failure(kind, answer(body))).error_class is expected
