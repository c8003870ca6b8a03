"""A transaction pooler small enough to read: sessions of the server are lent out one transaction at a time.

It does what PgBouncer does in transaction mode as far as a client can tell:
it answers the handshake itself, with a process id of its own, takes any idle
session of the server for the next transaction, and takes it back when the
server says that it is idle. LISTEN and prepared statements stay behind in
whatever session they were made in. Password logins are not supported.
"""

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

SSL_REQUEST = 80877103
CANCEL_REQUEST = 80877102
KNOWN_PARAMETERS = {
    "user",
    "database",
    "client_encoding",
    "application_name",
    "timezone",
    "datestyle",
    "extra_float_digits",
}


class Pooler:
    """Lends sessions of the server at *dsn*; *strict* refuses start parameters as PgBouncer does by default."""

    def __init__(self, dsn: str, *, strict: bool = False) -> None:
        parts = urlsplit(dsn)
        query = parse_qs(parts.query)
        self._socket = f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}"
        self._user = parts.username or ""
        self._database = parts.path.removeprefix("/")
        self._strict = strict
        self._idle: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._greeting = b""
        self._writers: list[asyncio.StreamWriter] = []
        self._clients: set[asyncio.Task[None]] = set()

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it goes."""
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        self._writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            if await self._greet(reader, writer):
                while True:
                    await self._transaction(reader, writer)
        writer.close()
        self._clients.discard(task)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        while True:
            (length,) = struct.unpack("!I", await reader.readexactly(4))
            packet = await reader.readexactly(length - 4)
            (code,) = struct.unpack("!I", packet[:4])
            if code == CANCEL_REQUEST:
                return False  # nothing to cancel: every statement of a test is short
            if code != SSL_REQUEST:
                break
            writer.write(b"N")
        words = [word.decode() for word in packet[4:].split(b"\0") if word]
        unknown = [name for name in words[::2] if name.lower() not in KNOWN_PARAMETERS]
        if self._strict and unknown:
            writer.write(_error(f"unsupported startup parameter: {unknown[0]}"))
            return False
        server = await self._take()
        self._idle.append(server)
        writer.write(self._greeting + _message(b"K", struct.pack("!II", 1, 1)) + _message(b"Z", b"I"))
        return True

    async def _transaction(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await _read(reader)
        if first[:1] == b"X":
            raise ConnectionResetError
        server = await self._take()
        server[1].write(first)
        ended = asyncio.Event()
        forward = asyncio.create_task(self._forward(reader, server[1], ended))
        try:
            last = await self._answer(server[0], writer)
        finally:
            ended.set()
            forward.cancel()
            with contextlib.suppress(asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
                await forward
        self._idle.append(server)  # before the client knows: its next transaction may find another session
        writer.write(last)

    async def _forward(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, ended: asyncio.Event) -> None:
        while not ended.is_set():
            server.write(await _read(reader))

    async def _answer(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        while True:
            message = await _read(server)
            if message[:1] == b"Z" and message[5:6] == b"I":
                return message
            writer.write(message)

    async def _take(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._idle:
            return self._idle.pop()
        reader, writer = await asyncio.open_unix_connection(self._socket)
        words = f"user\0{self._user}\0database\0{self._database}\0\0".encode()
        writer.write(struct.pack("!II", len(words) + 8, 196608) + words)
        greeting = b""
        while (message := await _read(reader))[:1] != b"Z":
            if message[:1] in (b"R", b"S"):
                greeting += message
        self._greeting = greeting
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        """Let go of clients and server."""
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # transports end in the next turn of the loop


@asynccontextmanager
async def pooled(dsn: str, *, strict: bool = False) -> AsyncIterator[tuple[str, Pooler]]:
    """A DSN that leads through a pooler to the database at *dsn*."""
    pooler = Pooler(dsn, strict=strict)
    server = await asyncio.start_server(pooler.client, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    parts = urlsplit(dsn)
    try:
        yield f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable", pooler
    finally:
        server.close()
        await pooler.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


def _error(text: str) -> bytes:
    fields = b"".join(
        letter + value.encode() + b"\0"
        for letter, value in ((b"S", "FATAL"), (b"V", "FATAL"), (b"C", "08P01"), (b"M", text))
    )
    return _message(b"E", fields + b"\0")
