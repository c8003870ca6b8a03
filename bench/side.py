"""One measurement of the Penstock on the path: `python -m bench.side '{...}'`, a process for each.

It is a guest of a server that runs already, migrates a database of its own with the code it measures, and
prints the number as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from bench.contestant import Contestant, load
from bench.measures import Measures
from bench.pairs import MEASURES
from bench.run import Run, Sizes
from bench.scenarios import latency, throughput
from bench.server import Guest

CONTESTANT: Final = "penstock"
SCENARIOS: Final[dict[str, Callable[[Run, Contestant], Awaitable[None]]]] = {
    "drain": partial(throughput.drain, crews=(1,)),
    "pickup": latency.latency,
    "enqueue": throughput.enqueue,
}


@dataclass(frozen=True, slots=True)
class Task:
    """What the harness hands to the process on its command line."""

    home: str  # of the harness, with the server in it
    measure: str
    jobs: int
    pickups: int
    singles: int
    patience: float
    tries: int

    def command(self) -> list[str]:
        """The command line that carries it."""
        return [sys.executable, "-m", "bench.side", json.dumps(asdict(self))]


@dataclass(frozen=True, slots=True)
class Answer:
    """The best of the tries, and the part of the machine that others used meanwhile."""

    value: float
    outside: float


async def measure(task: Task) -> Answer:
    """Run one scenario a few times and keep the best: whatever disturbs it can only make it slower."""
    home, contestant, measured = Path(task.home), load(CONTESTANT), MEASURES[task.measure]
    sizes = Sizes(jobs=task.jobs, pickups=task.pickups, singles=task.singles, patience=task.patience)
    async with Guest(home) as server:
        run = Run(sizes, server, home, Measures(), Console(stderr=True))
        for run.measures.round in range(task.tries):
            await SCENARIOS[task.measure](run, contestant)
    values = run.measures.values[CONTESTANT][measured.key]
    best = measured.best(values.values())
    outside = run.measures.outside[CONTESTANT][measured.key]
    return Answer(best, min(outside[number] for number, value in values.items() if value == best))


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(measure(Task(**json.loads(sys.argv[1])))))))
