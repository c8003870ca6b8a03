"""The API as a process: one socket, a graceful end, and no line of a log that is not ours."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from penstock.contract.errors import CannotListen
from penstock.telemetry import web_events

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI

    from penstock.web.streams import Streams

GRACE: Final = 10  # seconds for requests that are under way when the end comes
HEAD_BYTES: Final = 32_768  # of a request's line and headers together
SILENCE_MS: Final = 30_000  # a reader that takes nothing for so long is cut off by the kernel


def bound_socket(host: str, port: int) -> socket.socket:
    """Listen on *host* and *port*, 0 for a free one; a port in use is told."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another --host or --port, or 0 for a free port"
        ) from None
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else head and body of an answer are 40 ms apart
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MS)
    return made


class Server(uvicorn.Server):
    """Serves one application. The first signal ends streams and finishes requests, the second ends the process."""

    def __init__(self, app: FastAPI, listening: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",  # `work` does it, so that what prevents the start can be told
                log_config=None,
                log_level="critical",  # its lines repeat exceptions; ours do not
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=GRACE,
                h11_max_incomplete_event_size=HEAD_BYTES,
            )
        )
        self._app = app
        self._listening = listening
        self._signals = 0
        self.listening = asyncio.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._listening.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def work(self) -> None:
        """Serve until told to stop; what prevents the start is raised."""
        async with self._app.router.lifespan_context(self._app):
            await self.serve([self._listening])
        web_events.web_stopped()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where, and for whom."""
        await super().startup(sockets)
        if self.started:
            host, port = self._listening.getsockname()[:2]
            web_events.web_started(host, port, sorted(self._app.state.logins.dsns))
            self.listening.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Being told to stop is how this ends, with code 0; whoever insists gets 128 and the signal."""
        self._signals += 1
        if self._signals > 1:
            os._exit(128 + sig)
        self.leave(signal.Signals(sig).name)

    def leave(self, reason: str) -> None:
        """Take no more; also from another thread."""
        web_events.web_stopping(reason, self._streams.count if self._streams else 0)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams would go on for ever: they are told first, then everybody is waited for."""
        if self._streams is not None:
            self._streams.close()
        await super().shutdown(sockets)

    @property
    def _streams(self) -> Streams | None:
        streams: Streams | None = self._app.state.streams
        return streams
