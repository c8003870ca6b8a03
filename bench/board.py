"""The board: where worker processes tell the harness what ran, and when.

A mapped file instead of a pipe or a table: a handler writes two numbers and pays
about a quarter of a microsecond, the server sees nothing of it, and a killed
worker leaves what it wrote. Each process has a region of its own, so nobody
writes where somebody else writes.
"""

from __future__ import annotations

import mmap
import time
from dataclasses import dataclass
from pathlib import Path

_WORD = 8
_HEAD_WORDS = 4  # ready, jobs run, first handler start, spare
_GO = 0


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a board is; harness and workers must agree on it."""

    path: str
    jobs: int
    slots: int

    @property
    def region(self) -> int:
        """Bytes of one slot: its head, a start time and a count per job, rounded up to words."""
        return (_HEAD_WORDS + self.jobs) * _WORD + -(-self.jobs // _WORD) * _WORD

    @property
    def size(self) -> int:
        """Bytes of the whole board."""
        return _WORD + self.slots * self.region


class Region:
    """One process's part of the board."""

    def __init__(self, view: memoryview, jobs: int) -> None:
        times_from, counts_from = _HEAD_WORDS * _WORD, (_HEAD_WORDS + jobs) * _WORD
        self.head = view[:times_from].cast("Q")
        self.times = view[times_from:counts_from].cast("Q")
        self.counts = view[counts_from : counts_from + jobs].cast("B")

    def ran(self, number: int) -> None:
        """Called by every handler as its first act, with the number its job carries."""
        now = time.time_ns()
        head = self.head
        self.times[number] = now
        self.counts[number] += 1
        head[1] += 1
        if not head[2]:
            head[2] = now


class Board:
    """The whole board, as the harness sees it; a worker uses its own region only."""

    def __init__(self, shape: Shape, *, create: bool = False) -> None:
        self.shape = shape
        path = Path(shape.path)
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.truncate(shape.size)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), shape.size)
        view = memoryview(self._map)
        self._gate = view[:_WORD].cast("Q")
        self.regions = [
            Region(view[start : start + shape.region], shape.jobs) for start in range(_WORD, shape.size, shape.region)
        ]

    def open_gate(self) -> None:
        """Let every waiting worker begin."""
        self._gate[_GO] = 1

    def wait_at_gate(self, slot: int) -> None:
        """Say that this process is ready, and sleep until the harness opens the gate."""
        self.regions[slot].head[0] = 1
        while not self._gate[_GO]:
            time.sleep(0.0005)

    def ready(self) -> int:
        """Workers that wait at the gate or have passed it."""
        return sum(region.head[0] for region in self.regions)

    def total(self) -> int:
        """Handlers started so far, in all processes."""
        return sum(region.head[1] for region in self.regions)

    def first_start(self) -> int:
        """When the first handler of all started, in nanoseconds of the wall clock."""
        return min(region.head[2] for region in self.regions if region.head[2])

    def started_at(self, number: int) -> int:
        """When the job of that number last started; 0 if it did not."""
        return max(region.times[number] for region in self.regions)

    def faults(self, jobs: int) -> tuple[int, int]:
        """Of the first *jobs* numbers: how many never ran, and how many ran more than once."""
        counts = [bytes(region.counts[:jobs]) for region in self.regions]
        sums = [sum(column) for column in zip(*counts, strict=True)]
        return sum(n == 0 for n in sums), sum(n > 1 for n in sums)
