"""One request over HTTP: no redirect, no second try, no endless answer, no line in a log."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import httpx

from penstock.channels.failing import Broken, failed_of

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

CONNECT_SECONDS: Final = 10.0
_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_BROKEN: Final = (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; of its body no more than was asked for."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


def client(*, seconds: float, keep_alive: bool, trust_env: bool) -> httpx.AsyncClient:
    """A client for one channel; it belongs to the event loop that uses it first."""
    _hush()
    return httpx.AsyncClient(
        verify=trusted(),
        follow_redirects=False,
        trust_env=trust_env,
        timeout=httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds / 2)),
        limits=httpx.Limits(max_connections=100, max_keepalive_connections=20 if keep_alive else 0),
        headers={"User-Agent": "penstock", "Accept-Encoding": "identity"},
    )


async def exchange(http: httpx.AsyncClient, request: httpx.Request, *, seconds: float, most: int) -> Reply | Broken:
    """The answer to *request* within *seconds*, its body cut after *most* bytes."""
    try:
        async with asyncio.timeout(seconds):
            response = await http.send(request, stream=True)
            try:
                return Reply(response.status_code, response.headers, await _head(response, most))
            finally:
                await response.aclose()
    except _NEVER_SENT as broken:
        return Broken(failed_of(broken), sent=False)
    except _BROKEN as broken:
        return Broken(failed_of(broken), sent=True)


@lru_cache(maxsize=1)
def trusted() -> ssl.SSLContext:
    """The certificates, read once: it takes longer than a message."""
    return httpx.create_ssl_context()


async def _head(response: httpx.Response, most: int) -> bytes:
    found = bytearray()
    if most:
        async for chunk in response.aiter_bytes():
            found += chunk
            if len(found) > most:
                break
    return bytes(found[:most])


def _hush() -> None:
    """Keep httpx from logging URLs: that of a webhook is somebody's address (C-52)."""
    for name in ("httpx", "httpcore"):
        logger = logging.getLogger(name)
        if logger.level < logging.WARNING:
            logger.setLevel(logging.WARNING)
