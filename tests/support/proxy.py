"""A proxy between a client and PostgreSQL that freezes, delays, swallows and cuts.

It listens on a Unix socket of its own, or on a TCP port, and runs in a thread
of its own, so a test that blocks its event loop does not stop it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

IDLE: Final = b"Z\x00\x00\x00\x05I"  # the server's last word after a statement that has committed


class Link:
    """One connection through the proxy."""

    def __init__(self, writers: list[asyncio.StreamWriter]) -> None:
        self.moving = asyncio.Event()
        self.moving.set()
        self.deaf = False
        self.ending = False  # deaf, and cut as soon as the server is done
        self.writers = writers

    def close(self) -> None:
        """End both halves without a word."""
        self.moving.set()
        for writer in self.writers:
            writer.transport.abort()


class Proxy:
    """Stands in front of the server of *dsn*; `proxy.dsn` leads through it."""

    def __init__(self, dsn: str, *, tcp: bool = False) -> None:
        self._parts = parts = urlsplit(dsn)
        options = parse_qs(parts.query)
        port = options["port"][0]
        self._tcp = tcp
        self._server = f"{options['host'][0]}/.s.PGSQL.{port}"
        self._folder = tempfile.mkdtemp(prefix="penstock-proxy-")
        self._socket = f"{self._folder}/.s.PGSQL.{port}"
        self.dsn = urlunsplit(parts._replace(query=f"host={quote(self._folder, safe='/')}&port={port}"))
        self.port = 0  # over TCP: where it listens
        self.delay = 0.0  # seconds that every request takes longer
        self.cuts = 0  # how often `cut_before` and `cut_after` have come true
        self._before: bytes | None = None
        self._after: bytes | None = None
        self._shut = False
        self._links: set[Link] = set()
        self._listening: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(5)
        return self

    def __exit__(self, *_: object) -> None:
        """Cut what is left and stop."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def freeze(self) -> None:
        """Let nothing through on the connections there are: no data and no error. New ones are fine."""
        self._each(lambda link: link.moving.clear())

    def thaw(self) -> None:
        """Let them move again."""
        self._each(lambda link: link.moving.set())

    def deafen(self) -> None:
        """Swallow from now on what the server answers on the connections there are. New ones are fine."""
        self._each(lambda link: setattr(link, "deaf", True))

    def cut(self) -> None:
        """End every connection there is."""
        self._each(Link.close)

    def cut_all(self) -> None:
        """End every connection, and let nobody in again."""
        self._shut = True
        self.cut()

    def cut_before(self, words: bytes) -> None:
        """End the connection on which a client next sends *words*; the server never gets them."""
        self._before = words

    def cut_after(self, words: bytes) -> None:
        """End it once the server has done what a client sent with *words*; the client never gets the answer."""
        self._after = words

    def _each(self, what: Callable[[Link], None]) -> None:
        async def each() -> None:
            for link in self._links:
                what(link)

        asyncio.run_coroutine_threadsafe(each(), self._loop).result(5)

    async def _listen(self) -> None:
        if not self._tcp:
            self._listening = await asyncio.start_unix_server(self._serve, self._socket)
            return
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, self.port = self._listening.sockets[0].getsockname()
        self.dsn = urlunsplit(self._parts._replace(query=f"host={host}&port={self.port}&sslmode=disable"))

    async def _close(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if self._listening is not None:
            self._listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._shut:
            writer.transport.abort()
            return
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self._server)
        except OSError:  # nobody is there
            writer.transport.abort()
            return
        link = Link([writer, server_writer])
        self._links.add(link)
        try:
            await asyncio.gather(self._ask(link, reader, server_writer), self._answer(link, server_reader, writer))
        finally:
            self._links.discard(link)
            link.close()

    async def _ask(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await link.moving.wait()
                await asyncio.sleep(self.delay)
                if self._before is not None and self._before in data:
                    self._before = None
                    self.cuts += 1
                    break
                if self._after is not None and self._after in data:
                    self._after = None
                    link.deaf = link.ending = True
                writer.write(data)
                await writer.drain()
        link.close()

    async def _answer(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await link.moving.wait()
                if not link.deaf:
                    writer.write(data)
                    await writer.drain()
                elif link.ending and data.endswith(IDLE):
                    self.cuts += 1
                    break
        link.close()
