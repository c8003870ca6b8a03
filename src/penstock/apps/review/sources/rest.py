"""Asking a REST API for a changelist: read only, no redirect followed, and never more bytes than were asked for.

An error's body is not read. A status becomes a class by the table of failures;
where a host says with 403 that a window is used up, it is a limit and no
refusal. What the host says of how long to wait is kept.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import BaseModel, ConfigDict

from penstock.apps.review.sources.port import too_large
from penstock.contract.classify import classify
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.contract.retry_after import http_date
from penstock.providers.failing import Unreadable, asks

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["Answered", "Rest", "asks", "talk"]

SECONDS: Final = 60.0  # for all that one changelist takes
_CALL_SECONDS: Final = 20.0  # without a byte
_JSON_BYTES: Final = 2_000_000
_OK: Final = 200
_LONGEST_RESET: Final = 10  # digits
_WHY: Final = {
    FailureClass.NOT_FOUND: "has no such changelist, or does not show it to this login",
    FailureClass.AUTH_DENIED: "refuses the login; renew its token or password in PENSTOCK_REVIEW_SOURCES",
    FailureClass.RATE_LIMITED: "asks to be asked less often",
    FailureClass.CONFIG_INVALID: "has moved or asks for a login; mend its address in PENSTOCK_REVIEW_SOURCES",
}
M = TypeVar("M", bound="Answered")


class Answered(BaseModel):
    """A part of an answer; what else is in there is nobody's business."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class _Refused(Exception):
    """An answer that is not 200, in the form that `classify` reads."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__()
        self.response = response


@asynccontextmanager
async def talk(name: str, url: str, headers: Mapping[str, str]) -> AsyncIterator[Rest]:
    """A conversation with the host of source *name*, within a time limit for all of it."""
    try:
        import httpx
    except ImportError:
        raise Failed(
            FailureClass.CONFIG_INVALID, f"source {name!r} needs httpx; pip install 'penstock[review]'"
        ) from None
    _hush()
    async with (
        asyncio.timeout(SECONDS),
        httpx.AsyncClient(
            headers={"User-Agent": "penstock", "Accept-Encoding": "identity", **headers},
            follow_redirects=False,
            timeout=_CALL_SECONDS,
            verify=_trusted(),
        ) as client,
    ):
        yield Rest(name, url, client)


class Rest:
    """One host, asked by path."""

    def __init__(self, name: str, url: str, client: httpx.AsyncClient) -> None:
        self._name = name
        self._url = url
        self._client = client

    async def get(self, path: str, *, accept: str, most: int, over: Failed | None = None) -> bytes:
        """The body of a 200; *over* is raised where it has more than *most* bytes, and the rest is not read."""
        async with self._client.stream("GET", self._url + path, headers={"Accept": accept}) as response:
            if response.status_code != _OK:
                raise self._refusal(response)
            return await _body(response, most, over or too_large(most))

    async def get_json(self, path: str, shape: type[M], *, accept: str = "application/json", prefix: bytes = b"") -> M:
        """The members of a JSON object that *shape* names; an answer without them is the host's fault."""
        raw = await self.get(path, accept=accept, most=_JSON_BYTES, over=Failed(FailureClass.UPSTREAM_5XX))
        try:
            return shape.model_validate(json.loads(raw.removeprefix(prefix)))
        except (ValueError, RecursionError):  # also what pydantic raises
            pass
        raise Unreadable

    def _refusal(self, response: httpx.Response) -> Failed:
        """What a status means; GET changes nothing, so whatever may pass may be asked again."""
        failure = classify(_Refused(response), idempotent=True, now=datetime.now(UTC))
        found, wait = failure.error_class, failure.retry_after
        if response.is_redirect or response.is_informational or response.is_success:
            found = FailureClass.CONFIG_INVALID if response.is_redirect else FailureClass.UPSTREAM_5XX
        elif response.status_code in {403, 429} and (wait is not None or _is_used_up(response)):
            found, wait = FailureClass.RATE_LIMITED, wait if wait is not None else _until_reset(response)
        why = f"source {self._name!r} {_WHY.get(found, 'did not answer as it should')}"
        return Failed(found, why, retry_after=wait, upstream_status=response.status_code)


async def _body(response: httpx.Response, most: int, over: Failed) -> bytes:
    """As it is sent: nothing is unpacked, because a small body can unpack to any size."""
    length, framed = (
        response.headers.get("content-length", ""),
        "chunked" in response.headers.get("transfer-encoding", ""),
    )
    if response.headers.get("content-encoding", "identity") != "identity" or not (framed or length.isdigit()):
        raise Unreadable  # a body whose end nobody announced may be half of one
    body = bytearray()
    if not framed and int(length) > most:
        raise over
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > most:
            raise over
    return bytes(body)


def _is_used_up(response: httpx.Response) -> bool:
    return str(response.headers.get("x-ratelimit-remaining", "")).strip() == "0"


def _until_reset(response: httpx.Response) -> timedelta | None:
    """How long the window still lasts, by the host's own clock where it tells the time."""
    reset = str(response.headers.get("x-ratelimit-reset", "")).strip()
    if not reset.isdecimal() or len(reset) > _LONGEST_RESET:
        return None
    now = http_date(response.headers.get("date", "")) or datetime.now(UTC)
    return max(datetime.fromtimestamp(int(reset), UTC) - now, timedelta(0))


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    """One for all: to read the certificates again for each changelist takes longer than to ask for it."""
    import httpx

    return httpx.create_ssl_context()


def _hush() -> None:
    """At their debug level these write headers, and the login is in them."""
    for name in ("httpx", "httpcore"):
        logger = logging.getLogger(name)
        if logger.level < logging.WARNING:
            logger.setLevel(logging.WARNING)
