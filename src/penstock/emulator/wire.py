"""The connection itself: replies that never come, replies that end in the middle.

The gate stands before every provider. It finds the faults that strike a
request and does what no web framework does: close a connection instead of
answering, or after having acted.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.emulator.faults import EVERYBODY, Occasion, Rule
from penstock.emulator.kinds import Family
from penstock.emulator.replies import scripted
from penstock.emulator.world import Call, World

TRANSPORT: Final = "emulator.transport"
_TOKENS: Final = frozenset({b"idempotency-key", b"webhook-id"})
_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER 0: close with RST
_CUSTOM_IDS: Final = re.compile(rb'"(?:custom_id|key)"\s*:\s*"([^"]*)"')
_ID: Final = re.compile(r"(/(?:batches|files|models|emails)/)[^/:]+")


class Protocol(H11Protocol):
    """HTTP that shows the application its transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Bind the application to this connection."""
        super().connection_made(transport)
        inner = self.app

        async def app(scope: Any, receive: Any, send: Any) -> None:
            scope[TRANSPORT] = transport
            await inner(scope, receive, send)

        self.app = app


class Gate:
    """Applies the faults on requests, counts the calls, and keeps bugs of the emulator in sight."""

    def __init__(self, app: ASGIApp, world: World) -> None:
        self._app = app
        self._world = world

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through, or spoil it."""
        provider = scope.get("path", "/").split("/")[1]
        if scope["type"] != "http" or provider not in EVERYBODY:
            await self._app(scope, receive, send)
            return
        visit = Visit(self._world, provider, scope, receive, send)
        try:
            await visit.go(self._guarded)
        except ClientDisconnect:
            pass  # a client that died in the middle of its request
        finally:
            visit.note()

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except ClientDisconnect:
            raise
        except Exception as error:
            self._world.problems.append(error)
            message = f"the emulator itself failed: {type(error).__name__}"
            await JSONResponse({"error": {"message": message}}, 500)(scope, receive, send)


class Visit:
    """One request on its way through the gate."""

    def __init__(self, world: World, provider: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._world = world
        self._provider = provider
        self._scope = scope
        self._receive_more = receive
        self._send_on = send
        self._read: list[Message] = []
        self._status: int | None = None
        self._struck: list[Rule] = []
        self._noted = False
        self.method = str(scope["method"])
        self.path = str(scope["path"])

    @property
    def operation(self) -> str:
        """Method and path without ids, for counting."""
        path = self.path.removeprefix(f"/{self._provider}")
        return f"{self.method} {_ID.sub(lambda found: found[1] + '*', path)}"

    @property
    def _token(self) -> str:
        """What names the message to a channel, whichever it is."""
        return " ".join(value.decode("latin-1") for name, value in self._scope["headers"] if name in _TOKENS)

    def note(self) -> None:
        """Remember it, once: before the client can know how it went, so that whoever has an answer finds its call."""
        if not self._noted:
            self._noted = True
            kinds = tuple(rule.kind for rule in self._struck)
            call = Call(self._provider, self.method, self.path, self._world.clock.now(), self._status, kinds)
            self._world.calls.append(call)
            self._world.counts[self._provider, self.operation] += 1

    async def go(self, app: ASGIApp) -> None:
        """Find the faults; then answer, or do not."""
        if any(rule.family == Family.WIRE and (rule.custom_id or rule.text) for rule in self._world.faults.rules):
            await self._read_all()
        occasion = Occasion(
            self._provider,
            self.method,
            self.path,
            token=self._token,
            custom_ids=self._custom_ids,
            text=lambda: self._body.decode("utf-8", "replace"),
        )
        self._struck = self._world.faults.striking({Family.WIRE}, occasion)
        for rule in self._struck:
            if rule.kind == "delay":
                await asyncio.sleep(float(rule.get("seconds", 1)))
        spoiling = next((rule for rule in self._struck if rule.kind != "delay"), None)
        await self._spoiled(app, spoiling)

    async def _spoiled(self, app: ASGIApp, rule: Rule | None) -> None:
        match rule and rule.kind:
            case None:
                await app(self._scope, self._receive, self._send)
            case "drop" if rule:
                if not rule.get("early"):
                    await self._read_all()
                await self._close(reset=bool(rule.get("reset")))
            case "drop_after" if rule:
                await app(self._scope, self._receive, _nowhere)
                await self._close(reset=bool(rule.get("reset")))
            case "truncate" if rule:
                await self._cut(app, rule)
            case _ if rule:
                await self._read_all()
                if rule.get("act"):
                    await app(self._scope, self._receive, _nowhere)
                await scripted(self._provider, rule)(self._scope, self._receive, self._send)

    async def _receive(self) -> Message:
        return self._read.pop(0) if self._read else await self._receive_more()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self.note()
        await self._send_on(message)

    async def _read_all(self) -> None:
        """Take the whole body in, and have it ready for whoever reads next."""
        while not self._read or self._read[-1].get("more_body"):
            message = await self._receive_more()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._read.append(message)

    @property
    def _body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self._read)

    def _custom_ids(self) -> Sequence[str]:
        return [found.decode("utf-8", "replace") for found in _CUSTOM_IDS.findall(self._body)]

    async def _close(self, *, reset: bool = False, politely: bool = False) -> None:
        """Close the connection, and wait until that is known, so that nothing is answered after it."""
        self.note()
        transport: asyncio.Transport = self._scope[TRANSPORT]
        if reset:
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        if politely:
            transport.close()  # after what has been written
        else:
            transport.abort()
        while (await self._receive_more())["type"] != "http.disconnect":
            pass

    async def _cut(self, app: ASGIApp, rule: Rule) -> None:
        """Send a part of the reply under a frame that promises (length, chunked) or hides (close) the rest."""
        reply = Reply()
        await app(self._scope, self._receive, reply.take)
        body = b"".join(reply.chunks)
        after = int(rule.get("after", len(body) // 2))
        framing = rule.get("framing", "length")
        self._status = reply.status
        self.note()
        transport: asyncio.Transport = self._scope[TRANSPORT]
        transport.write(reply.head(framing, len(body)))
        part = body[:after]
        transport.write(b"%x\r\n%b\r\n" % (len(part), part) if framing == "chunked" and part else part)
        await self._close(politely=True)


class Reply:
    """A reply held back, to be sent by hand."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.chunks: list[bytes] = []

    async def take(self, message: Message) -> None:
        """Keep one message of the reply."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = list(message.get("headers", ()))
        else:
            self.chunks.append(bytes(message.get("body", b"")))

    def head(self, framing: str, size: int) -> bytes:
        """The status line and the headers; only a promised length can show that something is missing."""
        frames = {"length": (b"content-length", b"%d" % size), "chunked": (b"transfer-encoding", b"chunked")}
        own = [pair for pair in self.headers if pair[0] not in {b"content-length", b"transfer-encoding"}]
        every = [*own, frames.get(framing, (b"connection", b"close"))]
        return b"HTTP/1.1 %d OK\r\n" % self.status + b"".join(b"%b: %b\r\n" % pair for pair in every) + b"\r\n"


async def _nowhere(_message: Message) -> None:
    """Swallow a reply."""
