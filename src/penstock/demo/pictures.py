"""Pictures without a library: drawn from a number, shrunk by averaging, written as PNG."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Final

SIZE: Final = 128
SHRINK: Final = 4

Rows = list[bytearray]


def draw(seed: int, size: int = SIZE) -> Rows:
    """A picture of overlapping waves; every seed gives another one, always the same."""
    a, b, c = 0.03 + seed % 7 / 90, 0.05 + seed % 11 / 150, seed % 13
    columns = [math.sin(x * a + c) for x in range(size)]
    rows: Rows = []
    for y in range(size):
        wave = math.cos(y * b - c)
        row = bytearray()
        for x in range(size):
            tone = (columns[x] + wave + 2) / 4
            row += bytes((int(255 * tone), int(160 * (1 - tone)) + y % 64, (x + seed) % 256))
        rows.append(row)
    return rows


def shrink(rows: Rows, by: int = SHRINK) -> Rows:
    """Every *by* times *by* pixels become one: their average."""
    width, area = len(rows[0]) // 3 // by, by * by
    small: Rows = []
    for top in range(0, len(rows) - by + 1, by):
        band = rows[top : top + by]
        small.append(
            bytearray(
                sum(row[(x * by + dx) * 3 + channel] for row in band for dx in range(by)) // area
                for x in range(width)
                for channel in range(3)
            )
        )
    return small


def png(rows: Rows) -> bytes:
    """The picture as a PNG file."""
    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 6)
    chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
