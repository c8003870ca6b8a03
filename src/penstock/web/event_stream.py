"""The response that carries a stream: it notices who has gone and drops who does not read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from penstock.web.problems import Refused, problem
from penstock.web.streams import ended

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import Receive, Scope, Send

    from penstock.web.streams import Stream, Streams

MEDIA_TYPE: Final = "text/event-stream"
HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # proxies hold nothing back
)


class EventStream(Response):
    """Sends a stream until it ends, its reader leaves, or its reader is too slow."""

    media_type = MEDIA_TYPE

    def __init__(self, streams: Streams, stream: Stream, key_id: str) -> None:
        super().__init__()
        self._streams = streams
        self._stream = stream
        self._key_id = key_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a seat, send, and give the seat back however it ends."""
        request_id = scope["state"]["request_id"]
        chunks = self._stream.chunks()
        try:
            with self._streams.seat(self._key_id):
                first = await anext(chunks)
                await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
                ended(request_id, await self._carry(first, chunks, receive, send))
        except Refused as refused:
            answer = problem(request_id, refused.code, headers=refused.headers, more=refused.more)
            await answer(scope, receive, send)
        finally:
            await chunks.aclose()

    async def _carry(self, first: bytes, chunks: AsyncGenerator[bytes, None], receive: Receive, send: Send) -> str:
        writing = asyncio.create_task(self._write(first, chunks, send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return writing.result() if writing.done() else "left"
        finally:
            for task in (writing, leaving):
                task.cancel()
            await asyncio.gather(writing, leaving, return_exceptions=True)

    async def _write(self, first: bytes, chunks: AsyncGenerator[bytes, None], send: Send) -> str:
        """Every chunk has to be taken in time: one reader's full buffer is not ours to keep."""
        try:
            await self._send(first, send)
            async for chunk in chunks:
                await self._send(chunk, send)
        except TimeoutError:
            return "slow"
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return "ended"

    async def _send(self, chunk: bytes, send: Send) -> None:
        async with asyncio.timeout(self._streams.patience):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
