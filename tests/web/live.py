"""A real server on loopback, and a reader of its streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI

from penstock.web.server import Server, bound_socket
from tests.support.loopback import NOBODY

PATIENCE = 10.0


@dataclass(frozen=True)
class Event:
    name: str
    data: Any
    id: str | None = None

    @property
    def told(self) -> tuple[str, str]:
        """Which request, and how it stands."""
        return self.data["rewrite_request_id"], self.data["status"]


class Reader:
    """Reads one stream, event by event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.comments = 0
        self._lines = response.aiter_lines()

    async def next(self) -> Event:
        """The next event, as soon as it is there."""
        found: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if line.startswith(":"):
                    self.comments += 1
                elif line:
                    found[name] = value
                elif "data" in found:
                    return Event(found["event"], json.loads(found["data"]), found.get("id"))
        raise AssertionError("the stream has ended")

    async def snapshot(self) -> list[Event]:
        """Everything before the stream goes live."""
        events = []
        while (event := await self.next()).name != "live":
            events.append(event)
        return events

    async def comment(self) -> None:
        """Wait for the next sign of life."""
        seen = self.comments
        async with asyncio.timeout(PATIENCE):
            async for line in self._lines:
                if line.startswith(":"):
                    self.comments += 1
                    break
        assert self.comments > seen

    async def ended(self) -> None:
        """Wait for the end."""
        async with asyncio.timeout(PATIENCE):
            async for _ in self._lines:
                pass


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    """*app* on a port of its own, and a client of it."""
    server = Server(app, bound_socket("127.0.0.1", 0))
    url = server.url
    working = asyncio.create_task(server.work())
    await server.listening.wait()
    try:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, verify=NOBODY) as client:
            yield server, client
    finally:
        server.should_exit = True
        async with asyncio.timeout(PATIENCE):
            await working


@asynccontextmanager
async def following(client: httpx.AsyncClient, token: str, last_event_id: str | None = None) -> AsyncIterator[Reader]:
    """An open stream."""
    headers = {"Authorization": f"Bearer {token}"}
    if last_event_id is not None:
        headers["Last-Event-ID"] = last_event_id
    async with client.stream("GET", "/rewrites/stream", headers=headers) as response:
        assert response.status_code == 200, (await response.aread(), response.status_code)
        yield Reader(response)
