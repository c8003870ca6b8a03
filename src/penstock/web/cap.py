"""No body larger or slower than allowed is read, whatever its headers say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.web.problems import Refused, problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATIENCE: Final = 10.0  # seconds for a whole body
CLOSE: Final = {"Connection": "close"}  # what was not read is still on its way


class Cap:
    """Refuses by `Content-Length` before a byte is read, and counts what arrives: a length may be absent."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, patience: float = PATIENCE) -> None:
        self._app = app
        self._max = max_bytes
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through whose body is small enough, as far as is known."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if (code := self._refusal(scope)) is not None:
            await problem(scope["state"]["request_id"], code, headers=CLOSE)(scope, receive, send)
            return
        await self._app(scope, _Counted(receive, self._max, self._patience), send)

    def _refusal(self, scope: Scope) -> str | None:
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if len(set(lengths)) > 1 or not all(length.isdigit() for length in lengths):
            return "bad_request"
        return "body_too_large" if lengths and int(lengths[0][:20]) > self._max else None


class _Counted:
    """Receives a body that may be too large or too slow; what comes after it is left alone."""

    def __init__(self, receive: Receive, most: int, patience: float) -> None:
        self._receive = receive
        self._left = most
        self._patience = patience
        self._deadline: float | None = None
        self._done = False

    async def __call__(self) -> Message:
        if self._done:
            return await self._receive()
        message = await self._in_time()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise Refused("body_too_large", headers=CLOSE)
        self._done = not message.get("more_body", False)
        return message

    async def _in_time(self) -> Message:
        now = asyncio.get_running_loop().time()
        self._deadline = self._deadline or now + self._patience
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._receive()
        except TimeoutError:
            raise Refused("body_too_slow", headers=CLOSE) from None
