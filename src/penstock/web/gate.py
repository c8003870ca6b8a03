"""The outermost layer: every request gets an id, one log line, safe headers, and an answer even to a bug."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from penstock.telemetry import web_events
from penstock.web import counts
from penstock.web.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
# Answers are data for programs: no browser shall run, frame, guess or keep them.
HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


class Gate:
    """Wraps the whole application; an exception that nobody expected is told by its name, in the log only."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = _Visit(scope, send)
        try:
            await self._app(scope, receive, visit.send)
        except Exception as error:
            web_events.request_broke(visit.request_id, visit.route, type(error).__name__)
            if not visit.status:
                await problem(visit.request_id, "internal_error")(scope, receive, visit.send)
        finally:
            visit.leave()


class _Visit:
    """One request on its way."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.request_id = uuid4().hex
        self.status = 0
        self._scope = scope
        self._send = send
        self._began = time.monotonic()
        scope.setdefault("state", {})["request_id"] = self.request_id

    @property
    def route(self) -> str:
        """The pattern of the route, or nothing of what was asked for."""
        return getattr(self._scope.get("route"), "path", "none")

    async def send(self, message: Message) -> None:
        """Add the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name.lower() for name, _ in message["headers"]}
            more = [header for header in HEADERS if header[0] not in given]
            message["headers"] = [*message["headers"], *more, (b"x-request-id", self.request_id.encode())]
        await self._send(message)

    def leave(self) -> None:
        """Write the line."""
        method, seconds = self._scope["method"], time.monotonic() - self._began
        method = method if method in METHODS else "OTHER"
        caller = self._scope["state"].get("caller")
        counts.answered(method, self.route, self.status, seconds)
        web_events.request_ended(
            request_id=self.request_id,
            method=method,
            route=self.route,
            status=self.status,
            seconds=seconds,
            key_id=None if caller is None else caller.key_id,
        )
