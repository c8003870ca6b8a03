"""Load from outside: what else used the machine while something was measured.

A neighbour's test run halves whoever happens to be measured at that moment and spares the next one, so a
ratio can be wrong by any factor, in anybody's favour. Whether a round counts is decided by this load alone,
with a limit fixed beforehand, and never by what came out of it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import psutil

CALM: Final = 0.10  # of the machine: below it a measurement begins
DISTURBED: Final = 0.15  # above it the round does not count
PATIENCE: Final = 10.0  # seconds to wait for calm before measuring all the same
LOOK: Final = 0.5
KERNEL_THREADS: Final = 2  # the parent of those that write back our own pages


@dataclass(frozen=True, slots=True)
class Reading:
    """Processor seconds of the whole machine and of this run, at one moment."""

    server: int
    at: float
    machine: float
    ours: float

    @classmethod
    def now(cls, server: int) -> Reading:
        """Ours is the harness, all it started, the server with its backends, and the kernel's own threads."""
        return cls(server, time.monotonic(), _machine(), sum(_spent(process) for process in set(_ours(server))))

    def outside_since(self) -> float:
        """The part of the machine, 0 to 1, that others have used since this reading."""
        now = Reading.now(self.server)
        available = (now.at - self.at) * (os.cpu_count() or 1)
        used = (now.machine - self.machine) - (now.ours - self.ours)
        return max(0.0, used / available) if available > 0 else 0.0


async def calm(server: int, patience: float = PATIENCE) -> None:
    """Wait until the machine is ours, or until *patience* ends; the reading afterwards tells which."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        reading = Reading.now(server)
        await asyncio.sleep(LOOK)
        if reading.outside_since() < CALM:
            return


def _machine() -> float:
    """Busy time, with what the hypervisor took away: that is lost to us all the same."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def _ours(server: int) -> Iterator[psutil.Process]:
    """Some may come twice. The time of a process that ended stays with the parent that waited for it."""
    for pid in (os.getpid(), server, KERNEL_THREADS):
        try:
            root = psutil.Process(pid)
            yield root
            yield from root.children(recursive=True)
        except psutil.NoSuchProcess:
            continue


def _spent(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)
