"""Loopback hosts that speak as much of GitHub's and Gerrit's REST as a fetch needs, and fail as they are told."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

BASE, HEAD, OTHER = "b" * 40, "a" * 40, "c" * 40
DIFF = b"diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"


@dataclass(frozen=True)
class Asked:
    """One request."""

    path: str
    headers: Mapping[str, str]


@dataclass
class Reply:
    """What is answered. *framing*: length, chunked, or close, which announces no end. *cut*: bytes before it breaks."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    framing: str = "length"
    cut: int | None = None
    silent: bool = False  # taken, and never answered

    def head(self) -> bytes:
        """The status line and the headers."""
        own = {"length": ("Content-Length", str(len(self.body))), "chunked": ("Transfer-Encoding", "chunked")}
        every = [*self.headers.items(), own.get(self.framing, ("Connection", "close"))]
        lines = "".join(f"{name}: {value}\r\n" for name, value in every)
        return f"HTTP/1.1 {self.status} Told\r\n{lines}\r\n".encode()


class Host:
    """Answers each path with what it was given; anything else is a 404."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.asked: list[Asked] = []
        self.sent = 0  # bytes of bodies
        self.url = ""
        self.talks: list[asyncio.Task[None]] = []

    @property
    def paths(self) -> list[str]:
        """What was asked for."""
        return [asked.path for asked in self.asked]

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.talks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._answer(reader, writer):
                pass
        writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
        self.asked.append(Asked(lines[0].split(" ")[1], headers))
        reply = self.replies.get(self.asked[-1].path, Reply(404))
        if reply.silent:
            await reader.read()
            return False
        writer.write(reply.head())
        await self._send(writer, reply)
        return reply.cut is None and reply.framing != "close"

    async def _send(self, writer: asyncio.StreamWriter, reply: Reply) -> None:
        body = reply.body[: reply.cut]
        for start in range(0, len(body), 16_384):
            piece = body[start : start + 16_384]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if reply.framing == "chunked" else piece)
            await writer.drain()
            self.sent += len(piece)
        if reply.framing == "chunked" and reply.cut is None:
            writer.write(b"0\r\n\r\n")
        await writer.drain()


class GitHub(Host):
    """A GitHub with the repository acme/shop."""

    def pull(self, number: int, diff: bytes = DIFF, **members: Any) -> None:
        """Have a pull request."""
        given = {
            "title": "Sell more", "user": {"login": "ada"}, "html_url": f"https://github.test/acme/shop/pull/{number}",
            "base": {"sha": BASE}, "head": {"sha": HEAD}, "body": "x" * 100, **members,
        }  # fmt: skip
        self.replies[f"/repos/acme/shop/pulls/{number}"] = Reply(body=json.dumps(given).encode())
        self.replies[f"/repos/acme/shop/compare/{BASE}...{HEAD}"] = Reply(body=diff, framing="chunked")

    def source(self, **members: Any) -> dict[str, Any]:
        """Its entry in the sources."""
        return {"hub": {"kind": "github", "repository": "acme/shop", "url": self.url, **members}}


class Gerrit(Host):
    """A Gerrit with the project acme/shop."""

    root = "/a/changes/acme%2Fshop~4711/revisions"

    def change(self, patch_set: str = "current", diff: bytes = DIFF, root: str = root, **members: Any) -> None:
        """Have change 4711."""
        message = "Sell more\n\nBecause we can.\n\nChange-Id: I1\n"
        given = {
            "commit": HEAD, "parents": [{"commit": BASE, "subject": "x"}], "subject": "Sell more", "message": message,
            "author": {"name": "Ada", "email": "ada@example.org", "date": "2026-01-01"}, **members,
        }  # fmt: skip
        self.replies[f"{root}/{patch_set}/commit"] = Reply(body=b")]}'\n" + json.dumps(given).encode())
        body = str(given["message"]).partition("\n\n")[2]
        sender = f"From {HEAD} Mon Sep 17 00:00:00 2001\nFrom: Ada <ada@example.org>\n"
        mail = f"{sender}Subject: [PATCH] Sell more\n\n{body}---\n\n"
        coded = base64.b64encode(mail.encode() + diff)
        self.replies[f"{root}/{HEAD}/patch"] = Reply(body=coded, headers={"X-FYI-Content-Encoding": "base64"})

    def source(self, **members: Any) -> dict[str, Any]:
        """Its entry in the sources."""
        login = {"user": "reviewer", "password": "canary-password"}
        return {"gerrit": {"kind": "gerrit", "project": "acme/shop", "url": self.url, **login, **members}}


H = TypeVar("H", bound=Host)


@asynccontextmanager
async def listening(host: H) -> AsyncIterator[H]:
    """*host* on a port of its own."""
    server = await asyncio.start_server(host.take, "127.0.0.1", 0)
    host.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield host
    finally:
        server.close()
        for talk in host.talks:
            talk.cancel()
        await asyncio.gather(*host.talks, return_exceptions=True)
