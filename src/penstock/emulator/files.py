"""Files at a provider, in memory only: bytes that were uploaded, or lines that are made while they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

CHUNK: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Stored:
    """What a client has sent."""

    data: bytes

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.data)

    def chunks(self) -> Iterator[bytes]:
        """Its bytes in order."""
        for start in range(0, len(self.data), CHUNK):
            yield self.data[start : start + CHUNK]


@dataclass
class Written:
    """Lines made anew for every reader: a result file of any size takes no memory."""

    lines: Callable[[], Iterable[bytes]]

    @cached_property
    def size(self) -> int:
        """Its bytes, newlines included."""
        return sum(len(line) + 1 for line in self.lines())

    def chunks(self) -> Iterator[bytes]:
        """Its lines, many at a time."""
        held: list[bytes] = []
        size = 0
        for line in self.lines():
            held += (line, b"\n")
            size += len(line) + 1
            if size >= CHUNK:
                yield b"".join(held)
                held, size = [], 0
        yield b"".join(held)


@dataclass
class File:
    """A file as its provider lists it."""

    id: str
    provider: str
    project: str
    name: str  # OpenAI: file name; Gemini: display name
    purpose: str
    created_at: float
    content: Stored | Written
    mime_type: str = "application/jsonl"

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.content.size


def nonblank_lines(data: bytes) -> Iterator[memoryview]:
    """The lines that have something on them; they share the memory of the file."""
    view = memoryview(data)
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        if data[start:end].strip():
            yield view[start:end]
        start = end + 1
