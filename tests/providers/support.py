"""A scripted provider behind the real SDKs, and what the tests of all adapters share."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from uuid import UUID

import httpx2

from penstock.contract.calls import Request, Route
from penstock.providers.port import Submission
from penstock.providers.registry import Adapters
from tests.providers.clock import NOW

KEY = "sk-canary-key-0123456789"
BATCH = UUID("0123456789abcdef0123456789abcdef")
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
GOOD = json.dumps({"text": "bonjour"})

Reply = httpx2.Response | Exception | Callable[[httpx2.Request], httpx2.Response]


class Script(httpx2.AsyncBaseTransport):
    """Answers each request by its method and path; what it was not told about fails the test."""

    def __init__(self, replies: Mapping[str, Reply | list[Reply]] | None = None) -> None:
        self.replies: dict[str, Reply | list[Reply]] = dict(replies or {})
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        self.requests.append(request)
        reply = self.replies.get(f"{request.method} {request.url.path}", self.replies.get("*"))
        if isinstance(reply, list):
            reply = reply.pop(0) if len(reply) > 1 else reply[0]
        if reply is None:
            raise AssertionError(f"nobody expected {request.method} {request.url.path}")
        if isinstance(reply, Exception):
            raise reply
        return _fresh(reply) if isinstance(reply, httpx2.Response) else reply(request)

    @property
    def last(self) -> Any:
        """The JSON body of the last request."""
        return json.loads(self.requests[-1].content)


class Stream(httpx2.AsyncByteStream):
    """A body that ends, or breaks off, after what it has."""

    def __init__(self, content: bytes, error: Exception | None = None) -> None:
        self.content = content
        self.error = error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.content
        if self.error is not None:
            raise self.error


def _fresh(reply: httpx2.Response) -> httpx2.Response:
    """The same response again: a body can be read only once."""
    return httpx2.Response(reply.status_code, headers=reply.headers.raw, content=reply.content)


def answer(body: object, status: int = 200, **headers: str) -> httpx2.Response:
    """A JSON answer; escapes keep what UTF-8 has no form for."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, content=json.dumps(body), headers={"content-type": "application/json", **named})


def request(
    adapter: str,
    *,
    text: str = "hello",
    instructions: str = "translate",
    schema: Mapping[str, Any] | None = SCHEMA,
    model: str = "model-1",
    base_url: str | None = None,
) -> Request:
    provider = adapter.partition("_")[0]
    route = Route(provider=provider, model=model, adapter=adapter, base_url=base_url)
    return Request(route=route, instructions=instructions, text=text, schema=schema, max_output_tokens=100)


def submission(*lines: bytes) -> Submission:
    return Submission(batch_id=BATCH, model="model-1", lines=lines, created_at=NOW)


def adapters(script: Script) -> Adapters:
    return Adapters({"openai": KEY, "gemini": KEY, "anthropic": KEY}, transport=script)


def jsonl(*lines: object) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error
