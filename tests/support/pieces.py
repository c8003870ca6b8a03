"""Who runs which tests: a piece of the list for each process, in memory that all of them share."""

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

NONE: Final = -1
FIRST, END, NEXT, RUNNING = range(4)  # what is known of each process; its piece is [first, end)
WIDTH: Final = 4
BYTES: Final = 8  # of a number


class Pieces:
    """The numbers of *tests* tests, divided among *count* processes.

    A process takes its next test before it runs the one it has, because pytest
    has to know whose fixtures are needed again.
    """

    def __init__(self, tests: int, count: int) -> None:
        size = count * WIDTH * BYTES
        self._file = os.memfd_create("pieces")
        os.ftruncate(self._file, size)
        self._memory = memoryview(mmap.mmap(self._file, size)).cast("q", (count, WIDTH))
        self._numbers = range(count)
        share = -(-tests // count)
        for number in self._numbers:
            self._put(number, min(tests, number * share), min(tests, (number + 1) * share))
            self.begin(number, NONE)
            self._memory[number, NEXT] = NONE

    def take(self, number: int) -> int | None:
        """The next test of this process; None when there is none left for it."""
        with self._locked():
            if self._length(number) == 0:
                self._take_over(number)
            test = self._memory[number, FIRST] if self._length(number) else NONE
            self._memory[number, NEXT] = test
            if test == NONE:
                return None
            self._memory[number, FIRST] = test + 1
            return test

    def begin(self, number: int, test: int) -> None:
        """This process is in *test* from now on; `NONE` is no test."""
        self._memory[number, RUNNING] = test

    def bury(self, number: int) -> int | None:
        """The test in which this process died, if it was in one; its successor goes on behind that."""
        with self._locked():
            running, following = self._memory[number, RUNNING], self._memory[number, NEXT]
            if following not in (NONE, running):  # taken, and never begun
                alone = self._length(number) == 0
                self._put(number, following, following + 1 if alone else self._memory[number, END])
            self._memory[number, NEXT] = NONE
            self.begin(number, NONE)
            return None if running == NONE else running

    def clear(self) -> None:
        """Leave nothing to take."""
        with self._locked():
            for number in self._numbers:
                self._put(number, 0, 0)

    def left(self) -> int:
        """How many tests nobody has taken."""
        with self._locked():
            return sum(map(self._length, self._numbers))

    def _take_over(self, number: int) -> None:
        """Take the later half of the longest piece from its owner."""
        longest = max(self._numbers, key=self._length)
        first, end = self._memory[longest, FIRST], self._memory[longest, END]
        middle = (first + end) // 2
        self._put(longest, first, middle)
        self._put(number, middle, end)

    def _length(self, number: int) -> int:
        return self._memory[number, END] - self._memory[number, FIRST]

    def _put(self, number: int, first: int, end: int) -> None:
        self._memory[number, FIRST], self._memory[number, END] = first, end

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time; a lock of this kind goes with the process that holds it."""
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
