"""Every error has one form and a code, and repeats nothing that came in."""

import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock.settings import load_settings
from penstock.store.api_keys import Scope
from penstock.telemetry import logs
from penstock.web import create_app, problems
from tests.web.conftest import HOME, RECIPIENT, Keys, LateLogins, Spy, bearer, message, opened

CANARY = "canary-51c3"
JSON = {"Content-Type": "application/json"}


def checked(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem, after everything that holds for all of them was looked at."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    found: dict[str, Any] = answer.json()
    problems.Problem.model_validate(found)
    assert (found["code"], found["status"]) == (code, status)
    assert found["type"] == f"urn:penstock:problem:{code}"
    assert found["request_id"] == answer.headers["x-request-id"]
    assert CANARY not in answer.text + str(answer.headers)
    return found


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", f"/{CANARY}", 404, "not_found"),
        ("GET", f"/homes/{CANARY}/x", 404, "not_found"),
        ("GET", "/healthz/", 404, "not_found"),
        ("GET", "/docs", 404, "not_found"),
        ("DELETE", "/rewrites", 405, "method_not_allowed"),
        ("GET", "/rewrites", 405, "method_not_allowed"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        (CANARY.upper(), "/healthz", 405, "method_not_allowed"),
        ("POST", "/rewrites", 401, "key_refused"),
    ],
)
async def test_what_is_not_there_is_a_problem(
    client: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    answer = await client.request(method, path, params={"q": CANARY})
    checked(answer, status, code)
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"", b"\xff\xfe", CANARY.encode(), b'{"text": "' + CANARY.encode() + b'"', b"[" * 60_000,
        b'{"a":' * 9_000, "\ud800".encode("utf-16-le", "surrogatepass"),
    ],
    ids=lambda body: repr(body[:12]),
)  # fmt: skip
async def test_a_body_that_is_no_json_is_told_so(client: httpx.AsyncClient, keys: Keys, spy: Spy, body: bytes) -> None:
    headers = {**bearer(keys.make("orchestrator")), **JSON}
    answer = await client.post("/rewrites", content=body, headers=headers)
    checked(answer, *((400, "body_malformed") if body else (422, "input_invalid")))
    assert spy.calls == []


@pytest.mark.parametrize(
    ("changes", "where", "rule"),
    [
        ({"home_id": CANARY}, "body.home_id", "uuid_parsing"),
        ({"mentions": [CANARY]}, "body.mentions.0", "uuid_parsing"),
        ({"mentions": CANARY}, "body.mentions", "list_type"),
        ({"mentions": [str(uuid4())] * 101}, "body.mentions", "too_long"),
        ({"text": [CANARY]}, "body.text", "string_type"),
        ({"surface": CANARY}, "body.surface", "enum"),
        ({"reveal_delay_seconds": "5"}, "body.reveal_delay_seconds", "int_type"),
        ({"reveal_delay_seconds": True}, "body.reveal_delay_seconds", "int_type"),
        ({"reveal_delay_seconds": -1}, "body.reveal_delay_seconds", "greater_than_equal"),
        ({CANARY: 1}, "body", "extra_forbidden"),
        ({"text": {CANARY: {CANARY: CANARY}}}, "body.text", "string_type"),
    ],
)
async def test_bad_input_is_told_by_place_and_rule(
    client: httpx.AsyncClient, keys: Keys, spy: Spy, changes: dict[str, Any], where: str, rule: str
) -> None:
    answer = await client.post("/rewrites", json=message(**changes), headers=bearer(keys.make("orchestrator")))
    found = checked(answer, 422, "input_invalid")
    assert found["errors"] == [{"where": where, "rule": rule}]
    assert spy.calls == []


async def test_half_a_surrogate_pair_is_refused(client: httpx.AsyncClient, keys: Keys, spy: Spy) -> None:
    body = json.dumps({"blocked_terms": ["half \ud83d a pair"]})
    headers = {**bearer(keys.make("orchestrator")), **JSON}
    path = f"/homes/{HOME}/members/{RECIPIENT}/preferences"
    found = checked(await client.put(path, content=body, headers=headers), 422, "input_invalid")
    assert found["errors"] == [{"where": "body.blocked_terms.0", "rule": "string_unicode"}]
    assert spy.calls == []


async def test_a_path_that_does_not_fit_is_told_by_place(client: httpx.AsyncClient, keys: Keys) -> None:
    answer = await client.put(f"/homes/{CANARY}", headers=bearer(keys.make("orchestrator")))
    assert checked(answer, 422, "input_invalid")["errors"] == [{"where": "path.home_id", "rule": "uuid_parsing"}]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": ""},
        {"Content-Type": "application/json; charset=latin-1"}, {"Content-Type": f"multipart/{CANARY}"},
        {"Content-Type": "application/jsonp"}, {**JSON, "Content-Encoding": "gzip"},
        {"Content-Type": "application/problem+json"},
    ],
    ids=lambda headers: " ".join(headers.values()),
)  # fmt: skip
async def test_only_json_is_taken(client: httpx.AsyncClient, keys: Keys, spy: Spy, headers: dict[str, str]) -> None:
    given = {**bearer(keys.make("orchestrator")), **headers}
    answer = await client.post("/rewrites", content=json.dumps(message()), headers=given)
    checked(answer, 415, "media_type_refused")
    assert spy.calls == []


@pytest.mark.parametrize(
    "kind", ["application/json", 'Application/JSON; charset="utf-8"', "application/json;charset=UTF-8"]
)
async def test_json_may_say_that_it_is_utf_8(client: httpx.AsyncClient, keys: Keys, kind: str) -> None:
    given = {**bearer(keys.make("orchestrator")), "Content-Type": kind}
    answer = await client.post("/rewrites", content=json.dumps(message(text="Müll")), headers=given)
    assert answer.status_code == 202


async def test_a_bug_is_told_by_name_in_the_log_only(
    app: FastAPI, keys: Keys, spy: Spy, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("info", "json")
    spy.raises = ValueError(CANARY)
    try:
        async with opened(app, raise_app_exceptions=True) as client:
            answer = await client.put(
                f"/homes/{HOME}/members/{RECIPIENT}",
                json={"locale": CANARY},
                params={"q": CANARY},
                headers={**bearer(keys.make("orchestrator")), "X-Request-Id": CANARY, "User-Agent": CANARY},
            )
    finally:
        logs.reset()
    found = checked(answer, 500, "internal_error")
    written = capsys.readouterr().err
    assert CANARY not in written
    lines = [json.loads(line) for line in written.splitlines()]
    broke = next(line for line in lines if line["event"] == "web_request_broke")
    assert (broke["error"], broke["request_id"]) == ("ValueError", found["request_id"])
    assert broke["route"] == "/homes/{home_id}/members/{user_id}"


async def test_every_request_leaves_one_line_without_what_was_typed(
    app: FastAPI, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    token = keys.make("orchestrator")
    logs.configure("info", "json")
    try:
        async with opened(app) as client:
            await client.post(f"/rewrites?{CANARY}=1", json=message(text=CANARY), headers=bearer(token))
            await client.get(f"/{CANARY}", headers=bearer(CANARY))
            await client.request(CANARY.upper(), "/healthz")
    finally:
        logs.reset()
    written = capsys.readouterr().err
    assert CANARY not in written.lower()
    assert token.partition(".")[2] not in written
    lines = [line for line in map(json.loads, written.splitlines()) if line["event"] == "web_request"]
    seen = [(line["method"], line["route"], line["status"], line["key_id"]) for line in lines]
    assert seen == [
        ("POST", "/rewrites", 202, token.partition(".")[0]),
        ("GET", "none", 404, None),
        ("OTHER", "/healthz", 405, None),
    ]
    assert len({line["request_id"] for line in lines}) == 3


async def test_every_answer_has_headers_that_keep_browsers_from_harm(client: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/nowhere", "/openapi.json", "/metrics"):
        headers = (await client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["referrer-policy"] == "no-referrer"
        assert len(headers["x-request-id"]) == 32
        assert "access-control-allow-origin" not in headers


async def test_a_tracer_of_the_process_learns_nothing_from_the_framework(
    dsns: dict[Scope, str], spy: Spy, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    app = create_app(load_settings(), LateLogins(dsns), rewriting=spy, homes=spy)
    async with opened(app) as client:
        await client.get(f"/{CANARY}?{CANARY}={CANARY}")
        await client.put(f"/homes/{CANARY}", headers=bearer(keys.make("orchestrator")))
    assert CANARY not in str([span.to_json() for span in kept.get_finished_spans()])
