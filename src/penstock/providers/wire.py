"""The part of the OpenAI and Anthropic SDKs that is the same: authenticated calls with raw answers.

Answers are taken raw, because the SDKs hand out HTML as text and let broken
JSON through as a `ValueError`; here both are an upstream's failure. Redirects
are not followed: a key goes to the host it was meant for.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import httpx2

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.providers.answers import body_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

CONTROL_SECONDS: Final = 60.0  # one poll, one page of a list, one create
TRANSFER_SECONDS: Final = 900.0  # one upload or download
MOST_BYTES: Final = 8_000_000  # of one answer that is no file of results
_FILES: Final = ("/content", "/results", ":download")  # how the paths of those end
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", re.ASCII)
_TALKATIVE: Final = ("openai", "anthropic", "google_genai", "httpx2", "httpcore2")
_STREAM: Final = {"X-Stainless-Raw-Response": "stream", "Accept-Encoding": "identity"}


class Oversized(Exception):
    """An answer that does not end; asking again would bring, and cost, the same."""

    error_class = FailureClass.SCHEMA_INVALID


class _Capped(httpx2.AsyncByteStream):
    """A body that is broken off where it exceeds *most* bytes."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int) -> None:
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise Oversized
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def cap(response: httpx2.Response) -> None:
    """For the clients' hooks: no answer of any status fills the memory; files of results are as large as they are."""
    if not response.request.url.path.endswith(_FILES) and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Capped(response.stream, MOST_BYTES)


class Promise(NamedTuple):
    """How the end of a body can be told from a break."""

    size: int | None
    framed: bool  # the body comes in chunks, and a missing last one raises


class Wire:
    """One SDK client, asked by path."""

    def __init__(self, client: AsyncOpenAI | AsyncAnthropic) -> None:
        self._client: Any = client  # both have the same base, each its own copy of it
        hush()

    async def get(self, path: str, **params: object) -> dict[str, Any]:
        """One JSON object."""
        options = {"params": params, "timeout": CONTROL_SECONDS}
        async with asyncio.timeout(CONTROL_SECONDS):
            response = await self._client.get(path, cast_to=httpx2.Response, options=options)
        return body_of(response.content)

    async def post(
        self, path: str, body: Mapping[str, Any] | None = None, *, seconds: float = CONTROL_SECONDS
    ) -> dict[str, Any]:
        """One JSON object for another, or for nothing, within *seconds* in all."""
        async with asyncio.timeout(seconds):
            response = await self._client.post(
                path, cast_to=httpx2.Response, body=body, options={"timeout": seconds, "max_retries": 0}
            )
        return body_of(response.content)

    async def send(self, path: str, content: AsyncIterator[bytes], size: int) -> dict[str, Any]:
        """A large JSON body, sent as it is read."""
        headers = {"Content-Type": "application/json", "Content-Length": str(size)}
        options = {"timeout": TRANSFER_SECONDS, "max_retries": 0, "headers": headers}
        async with asyncio.timeout(TRANSFER_SECONDS):
            response = await self._client.post(path, cast_to=httpx2.Response, content=content, options=options)
        return body_of(response.content)

    async def delete(self, path: str) -> None:
        """Remove it."""
        async with asyncio.timeout(CONTROL_SECONDS):
            await self._client.delete(path, cast_to=httpx2.Response, options={"timeout": CONTROL_SECONDS})

    async def download(
        self, path: str, *, enough: Callable[[bytearray], bool] | None = None
    ) -> tuple[bytearray, Promise]:
        """The bytes, and what the server has promised of them; stops early once there are *enough*."""
        options = {"headers": _STREAM, "timeout": TRANSFER_SECONDS}
        content = bytearray()
        async with asyncio.timeout(TRANSFER_SECONDS):
            response: httpx2.Response = await self._client.get(path, cast_to=httpx2.Response, options=options)
            try:
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if enough is not None and enough(content):
                        break
            finally:
                await response.aclose()
        return content, promised(response)

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.close()


def promised(response: httpx2.Response) -> Promise:
    """The length that a response announced, where it can be compared with what arrived."""
    announced, encoding = response.headers.get("content-length", ""), response.headers.get("transfer-encoding", "")
    plain = response.headers.get("content-encoding", "identity") == "identity" and announced.isdigit()
    return Promise(int(announced) if plain else None, framed=encoding.lower() == "chunked")


def safe_id(identity: str) -> str:
    """*identity* for use in a path; what could leave its place there is nothing a provider gave us."""
    if not _ID.fullmatch(identity) or ".." in identity:
        raise Failed(FailureClass.NOT_FOUND)
    return quote(identity, safe="/")


def hush() -> None:
    """Keep the SDKs from logging requests: at their debug level they write whole prompts (A-82)."""
    for name in _TALKATIVE:
        logger = logging.getLogger(name)
        if logger.level < logging.WARNING:
            logger.setLevel(logging.WARNING)
