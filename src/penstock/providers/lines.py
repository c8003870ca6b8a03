"""JSON lines on their way out and in, never on a disk (A-83).

Out: a file made of the lines themselves, so that 200 MB of them are not held
twice. In: the whole artifact in one buffer; each line is parsed once to prove
that all are there, and once more when its turn comes.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

NEWLINE: Final = b"\n"
_BREATH: Final = 1_000_000  # bytes parsed before others get their turn


class LineFile(io.RawIOBase):
    """The lines as one readable file; reading it copies no more than was asked for."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        super().__init__()
        self._lines = lines
        self._size = sum(len(line) + 1 for line in lines)
        self._rewind()

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be wound back to its start, or to its end to learn its size."""
        return True

    def tell(self) -> int:
        """How far it has been read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """To the start or to the end; no client asks for more."""
        if whence == io.SEEK_SET and offset == 0:
            self._rewind()
        elif whence == io.SEEK_END and offset == 0:
            self._position, self._next, self._rest = self._size, len(self._lines), memoryview(b"")
        elif (whence, offset) not in ((io.SEEK_SET, self._position), (io.SEEK_CUR, 0)):
            raise io.UnsupportedOperation("this file goes to its start or its end only")
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Exactly *size* bytes as long as there are so many."""
        wanted = self._size - self._position if size is None or size < 0 else size
        parts: list[bytes | memoryview] = []
        while wanted > 0 and (self._rest or self._load()):
            part, self._rest = self._rest[:wanted], self._rest[wanted:]
            parts.append(part)
            wanted -= len(part)
            self._position += len(part)
        return b"".join(parts)

    def _load(self) -> bool:
        if self._next == len(self._lines):
            return False
        self._rest = memoryview(self._lines[self._next] + NEWLINE)
        self._next += 1
        return True

    def _rewind(self) -> None:
        self._position = self._next = 0
        self._rest = memoryview(b"")


async def proven(artifact: bytearray, *sizes: int | None, framed: bool = False) -> bytearray:
    """*artifact*, once every line of it has been parsed and it has each size that was promised.

    A download that broke off raises, and the caller has given out nothing yet:
    a half-read batch looks like one with missing items. Only where a size
    proves that all of it is here may a line be broken: the provider itself
    has broken it, and another download would bring the same. An end that was
    *framed*, without a size, proves as much for all lines but the last.
    """
    told = [size for size in sizes if size is not None]
    whole = all(len(artifact) == size for size in told)
    broken = last = False
    parsed = 0
    for line in _lines(artifact) if whole else ():
        last = _parsed(line) is None
        broken = broken or last
        parsed += len(line)
        if parsed > _BREATH:
            parsed = 0
            await asyncio.sleep(0)
    if not whole or (broken and not told and (last or not framed)):
        raise Failed(FailureClass.NETWORK_RESET)
    return artifact


async def objects(artifact: bytearray) -> AsyncIterator[dict[str, Any]]:
    """The lines of a proven artifact, one parsed object at a time; a broken one is empty, and so nobody's."""
    parsed = 0
    for line in _lines(artifact):
        yield _parsed(line) or {}
        parsed += len(line)
        if parsed > _BREATH:
            parsed = 0
            await asyncio.sleep(0)


def digest(*parts: object) -> str:
    """The same for the same JSON, whatever the order of its keys."""
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def encode(line: object) -> bytes:
    """One line of an input, without its newline; a lone surrogate cannot leave the house."""
    try:
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (UnicodeEncodeError, ValueError):
        pass
    raise Failed(FailureClass.PAYLOAD_REJECTED, "the request has half a surrogate pair or a NaN in it: it is no JSON")


def _lines(artifact: bytearray) -> Iterator[bytearray]:
    start = 0
    while start < len(artifact):
        end = artifact.find(NEWLINE, start)
        end = len(artifact) if end < 0 else end
        line = artifact[start:end]
        if line.strip():
            yield line
        start = end + 1


def _parsed(line: bytearray) -> dict[str, Any] | None:
    """The JSON object in *line*; None where there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
