"""The size of a body is looked at before anything else is."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from penstock.settings import load_settings
from penstock.store.api_keys import Scope
from penstock.web import create_app
from penstock.web.cap import Cap
from penstock.web.gate import Gate
from tests.web.conftest import Keys, LateLogins, Spy, bearer, message

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def app(dsns: dict[Scope, str], spy: Spy) -> FastAPI:
    """The application with the smallest cap there is."""
    return create_app(load_settings(web_max_bytes=1024), LateLogins(dsns), rewriting=spy, homes=spy)


async def pieces(count: int, seen: list[int] | None = None) -> AsyncIterator[bytes]:
    for number in range(count):
        if seen is not None:
            seen.append(number)
        yield b" " * 512


async def test_a_length_above_the_cap_is_refused_before_a_byte_is_read(
    client: httpx.AsyncClient, keys: Keys, spy: Spy
) -> None:
    seen: list[int] = []
    headers = {**bearer(keys.make("orchestrator")), **JSON, "Content-Length": "1025"}
    answer = await client.post("/rewrites", content=pieces(3, seen), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert answer.headers["connection"] == "close"
    assert (seen, spy.calls) == ([], [])


async def test_a_body_without_a_length_is_counted_and_cut(client: httpx.AsyncClient, keys: Keys, spy: Spy) -> None:
    seen: list[int] = []
    headers = {**bearer(keys.make("orchestrator")), **JSON, "Transfer-Encoding": "chunked"}
    answer = await client.post("/rewrites", content=pieces(1000, seen), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert answer.headers["connection"] == "close"
    assert len(seen) <= 4, "the rest was not even asked for"
    assert spy.calls == []


async def test_a_length_that_lies_is_counted_too(client: httpx.AsyncClient, keys: Keys, spy: Spy) -> None:
    headers = {**bearer(keys.make("orchestrator")), **JSON, "Content-Length": "10"}
    answer = await client.post("/rewrites", content=pieces(1000), headers=headers)
    assert (answer.status_code, spy.calls) == (413, [])


async def test_exactly_the_cap_is_fine(client: httpx.AsyncClient, keys: Keys) -> None:
    body = str(message()).replace("'", '"').encode()
    headers = {**bearer(keys.make("orchestrator")), **JSON}
    answer = await client.post("/rewrites", content=body.ljust(1024), headers=headers)
    assert answer.status_code == 202
    answer = await client.post("/rewrites", content=body.ljust(1025), headers=headers)
    assert answer.status_code == 413


@pytest.mark.parametrize("length", [b"-1", b"ten", b"1e3", b"", b"0x10", "²".encode()])
async def test_a_length_that_is_no_number_is_refused(client: httpx.AsyncClient, length: bytes) -> None:
    request = client.build_request("POST", "/rewrites", headers=[(b"content-length", length)])
    answer = await client.send(request)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


async def test_two_lengths_are_refused(client: httpx.AsyncClient) -> None:
    request = client.build_request(
        "POST", "/rewrites", headers=[(b"content-length", b"5"), (b"content-length", b"6")], content=b"12345"
    )
    assert (await client.send(request)).status_code == 400


async def test_a_number_of_any_size_is_too_large(client: httpx.AsyncClient) -> None:
    answer = await client.post("/rewrites", headers={"Content-Length": "9" * 5000})
    assert answer.status_code == 413


async def test_a_body_that_never_comes_is_given_up() -> None:
    sent: list[Any] = []
    never = asyncio.Event()

    async def reads(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    async def receive() -> Any:
        await never.wait()

    async def send(event: Any) -> None:
        sent.append(event)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    with_handlers = create_bare(reads)
    await with_handlers(scope, receive, send)
    assert sent[0]["status"] == 408


def create_bare(inner: Any) -> Any:
    """The two outer layers around *inner*, with the framework's handling of refusals between."""
    from starlette.exceptions import HTTPException
    from starlette.middleware.exceptions import ExceptionMiddleware

    from penstock.web.problems import on_http_exception

    handlers: Any = {HTTPException: on_http_exception}
    return Gate(Cap(ExceptionMiddleware(inner, handlers=handlers), max_bytes=10, patience=0.01))
