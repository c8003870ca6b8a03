"""A proxy on a Unix socket that passes everything on, until it is told to cut."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Final, Self
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

IDLE: Final = b"Z\x00\x00\x00\x05I"  # the server's last word after a statement that has committed


class Proxy:
    """Sits between a client and the server at *dsn*; use its own `dsn`."""

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self._target = f"{query['host']}/.s.PGSQL.{query.get('port', '5432')}"
        self._directory = tempfile.mkdtemp(prefix="pnsk-proxy-")
        self._socket = Path(self._directory) / ".s.PGSQL.5432"
        self.dsn = urlunsplit(parts._replace(query=urlencode(query | {"host": self._directory, "port": "5432"})))
        self._before: bytes | None = None
        self._after: bytes | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.cuts = 0
        self.closed = False

    def cut_before(self, words: bytes) -> None:
        """Cut once a client sends *words*; the server never gets them."""
        self._before = words

    def cut_after(self, words: bytes) -> None:
        """Cut once the server has done what a client sent with *words*; the client never gets the answer."""
        self._after = words

    def cut_all(self) -> None:
        """Cut every connection, and let nobody in again."""
        self.closed = True
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, str(self._socket))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut_all()
        await self._server.wait_closed()
        await asyncio.sleep(0)
        shutil.rmtree(self._directory)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.closed:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_unix_connection(self._target)
        pair = (writer, server_writer)
        self._writers.update(pair)
        line = _Line()
        ways = [
            asyncio.create_task(self._upstream(reader, server_writer, line)),
            asyncio.create_task(self._downstream(server_reader, writer, line)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for end in pair:
            end.transport.abort()
            self._writers.discard(end)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _upstream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line) -> None:
        while data := await reader.read(65536):
            if self._before is not None and self._before in data:
                self._before = None
                self._cut()
            if self._after is not None and self._after in data:
                self._after = None
                line.swallowing = True
            writer.write(data)
            await writer.drain()

    async def _downstream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line) -> None:
        while data := await reader.read(65536):
            if line.swallowing:
                if data.endswith(IDLE):
                    self._cut()
                continue
            writer.write(data)
            await writer.drain()

    def _cut(self) -> None:
        self.cuts += 1
        raise ConnectionResetError


class _Line:
    """One connection through the proxy."""

    swallowing = False
