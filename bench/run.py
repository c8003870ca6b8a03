"""One run of the bench: its sizes, its server, and what every scenario needs from both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.bars import ENOUGH
from bench.contestant import Contestant
from bench.crew import Crew, WorkerFailed, cpu_of
from bench.measures import Measures
from bench.outside import PATIENCE, Reading, calm
from bench.server import Server


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything; `quick` shows that it works, the default measures."""

    jobs: int = 20_000
    rounds: int = 3
    singles: int = 4_000
    bulk: int = 100_000
    pickups: int = 400
    idle_seconds: float = 30.0
    history: int = 1_000_000
    others: int = 100_000
    horizon: int = 200_000
    memory: int = 500_000
    lease: float = 5.0
    patience: float = PATIENCE  # seconds to wait for a calm machine before each measurement
    small: bool = False  # too little to say anything about speed

    @property
    def judged(self) -> bool:
        """Whether the bars may be held against the numbers: full sizes, and rounds to take a median of."""
        return not self.small and self.rounds >= ENOUGH

    @classmethod
    def quick(cls) -> Sizes:
        """Everything once, in a few minutes."""
        return cls(
            jobs=2_000,
            rounds=1,
            singles=200,
            bulk=10_000,
            pickups=30,
            idle_seconds=10.0,
            history=50_000,
            others=10_000,
            horizon=20_000,
            memory=50_000,
            lease=3.0,
            small=True,
        )


@dataclass(frozen=True, slots=True)
class Drain:
    """Jobs that were waiting, and how fast they went."""

    rate: float
    worker_us: float
    server_us: float
    outside: float


@dataclass(frozen=True, slots=True)
class Run:
    """What a scenario is given."""

    sizes: Sizes
    server: Server
    home: Path
    measures: Measures
    console: Console

    def hire(self, contestant: Contestant, database: str, *, jobs: int, count: int = 1) -> Crew:
        """Worker processes of a contestant on one database, waiting at the gate."""
        return Crew.hire(self.home, contestant.name, self.server.dsn(database), jobs=jobs, count=count)

    async def guard(self, what: str, measurement: Awaitable[object]) -> None:
        """One contestant's fault is reported and does not end the run."""
        try:
            await measurement
        except Exception as error:
            fault = f"{what}, round {self.measures.round + 1}: {type(error).__name__}: {error}"
            self.measures.failures.append(fault)
            self.console.print("[red]failed[/]", fault, markup=True, highlight=False)

    def share(self, contestant: Contestant, of: int) -> int:
        """The contestant's part of a number of jobs, at least enough to measure."""
        return max(200, round(of * contestant.share))

    def say(self, contestant: Contestant, text: str) -> None:
        """One line of progress."""
        self.console.print(f"  [cyan]{contestant.name:<14}[/] {text}")

    async def enqueue(
        self, contestant: Contestant, database: str, numbers: Sequence[int], *, less_urgent: bool = False
    ) -> float:
        """Enqueue a set; return the jobs per second it took."""
        async with contestant.client(self.server.dsn(database)) as client:
            began = time.perf_counter()
            await client.many(numbers, less_urgent=less_urgent)
            return len(numbers) / (time.perf_counter() - began)

    async def calm(self) -> None:
        """Wait until the machine is ours, as long as the run's patience lasts."""
        await calm(self.server.pid, self.sizes.patience)

    def reading(self) -> Reading:
        """A mark from which the load from outside is counted."""
        return Reading.now(self.server.pid)

    async def drain(
        self, contestant: Contestant, database: str, jobs: int, *, processes: int = 1, less_urgent: bool = False
    ) -> Drain:
        """Enqueue *jobs*, start the workers, and time from the first handler to the last durable completion.

        Raises if any job was missed or ran twice: a fast queue that loses work has no rate.
        """
        await self.enqueue(contestant, database, range(jobs), less_urgent=less_urgent)
        await self.server.settle(database)
        async with self.hire(contestant, database, jobs=jobs, count=processes) as crew:
            await self.calm()
            before, reading = crew.cpu_seconds(), self.reading()
            crew.release()
            await crew.until(lambda: crew.board.total() >= jobs, "drain", 300)
            ended = await self.finished(contestant, database)
            outside = reading.outside_since()
            return await self._judge(crew, database, jobs, ended, before, outside)

    async def finished(self, contestant: Contestant, database: str) -> int:
        """Wait until the database itself says that nothing is left; return when it was asked.

        What it answers was so when the question came, however long it looked.
        """
        watch = await self.server.connect(database)
        deadline = time.monotonic() + 60
        asked = time.time_ns()
        while await watch.fetchval(contestant.pending):
            if time.monotonic() > deadline:
                raise WorkerFailed(f"{contestant.name} ran every job but did not finish them all")
            await asyncio.sleep(0.001)
            asked = time.time_ns()
        await watch.close()
        return asked

    async def _judge(
        self, crew: Crew, database: str, jobs: int, ended: int, cpu_before: float, outside: float
    ) -> Drain:
        missed, doubled = crew.board.faults(jobs)
        if missed or doubled:
            raise WorkerFailed(f"{missed} of {jobs} jobs never ran, {doubled} ran more than once")
        worker = crew.cpu_seconds() - cpu_before
        server = sum(cpu_of(await self.server.backends(database)).values())
        seconds = (ended - crew.board.first_start()) / 1e9
        return Drain(jobs / seconds, worker / jobs * 1e6, server / jobs * 1e6, outside)
