"""The worker processes of one measurement: started, held at the gate, released, killed."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from bench.board import Board, Shape
from bench.worker import Order

LAST_WORDS: Final = 2  # lines of a dead worker's log that the report repeats
_NUMBERS: Final = itertools.count(1)


class WorkerFailed(Exception):
    """A worker process ended or stalled; the message carries the end of its log."""


@dataclass(frozen=True, slots=True)
class Crew:
    """Processes of one contestant on one database, and the board they report to."""

    board: Board
    processes: list[subprocess.Popen[bytes]]
    log: Path

    @classmethod
    def hire(
        cls,
        home: Path,
        contestant: str,
        dsn: str,
        *,
        jobs: int,
        count: int = 1,
        concurrency: int = 0,
        lease: float = 0.0,
        hang: bool = False,
    ) -> Crew:
        """Start *count* processes; they wait at the gate until `release`."""
        number = next(_NUMBERS)
        shape = Shape(str(home / f"board-{number}"), jobs, count)
        board = Board(shape, create=True)
        log = home / f"worker-{number}-{contestant}.log"
        processes = []
        for slot in range(count):
            order = Order(contestant, dsn, shape.path, jobs, count, slot, concurrency, hang, lease)
            with log.open("ab") as output:
                processes.append(subprocess.Popen(order.command(), stdout=output, stderr=output))
        return cls(board, processes, log)

    async def __aenter__(self) -> Self:
        try:
            await self.until(lambda: self.board.ready() == len(self.processes), "import", 120)
        except WorkerFailed:
            self.dismiss()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dismiss()
        if error is None:
            self.log.unlink(missing_ok=True)

    def release(self) -> None:
        """Open the gate."""
        self.board.open_gate()

    async def until(self, reached: Callable[[], bool], what: str, seconds: float, every: float = 0.002) -> None:
        """Wait for *reached*; a worker that died or takes too long raises with its log."""
        deadline = time.monotonic() + seconds
        while not reached():
            if any(process.poll() not in (None, -9) for process in self.processes):
                raise WorkerFailed(f"a worker ended ({what}): {self._tail()}")
            if time.monotonic() > deadline:
                raise WorkerFailed(f"not done after {seconds:.0f} s ({what}): {self._tail()}")
            await asyncio.sleep(every)

    def cpu_seconds(self) -> float:
        """Processor time the living processes have used, with their children."""
        return sum(_cpu(process.pid) for process in self.processes if process.poll() is None)

    def rss_megabytes(self) -> float:
        """Resident memory of the first process, without the board: nine bytes a job that are ours, not the worker's."""
        process = psutil.Process(self.processes[0].pid)
        board = sum(part.rss for part in process.memory_maps() if part.path == self.board.shape.path)
        return float(process.memory_info().rss - board) / 1e6

    def dismiss(self) -> None:
        """Kill: completions were seen in the database already, so nothing is lost by it."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        Path(self.board.shape.path).unlink(missing_ok=True)

    def _tail(self) -> str:
        if not self.log.exists():
            return ""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return f"{' | '.join(lines[-LAST_WORDS:])} (all of it in {self.log})"


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def cpu_of(pids: list[int]) -> dict[int, float]:
    """Processor time of server processes; one that has gone counts as nothing."""
    used = {}
    for pid in pids:
        try:
            used[pid] = _cpu(pid)
        except psutil.NoSuchProcess:
            continue
    return used
