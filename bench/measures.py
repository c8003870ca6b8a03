"""What was measured: one value per contestant, measure and round."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from bench.outside import DISTURBED

# Measure -> what its number means, in the words of the report.
UNITS: Final = {
    "enqueue": "jobs/s, one transaction each",
    "bulk": "jobs/s, the fastest call for many",
    "drain1": "jobs/s, one worker process",
    "drain2": "jobs/s, two worker processes",
    "worker_us": "µs of worker CPU per job",
    "server_us": "µs of PostgreSQL CPU per job",
    "pickup_p50": "ms from commit to handler",
    "pickup_p99": "ms from commit to handler",
    "call_p50": "ms from the call of enqueue to handler",
    "idle_xact": "transactions/s of an idle worker",
    "idle_cpu": "% of a core, idle worker",
    "idle_server_cpu": "% of a core, its backends",
    "rss": "MB resident, idle worker",
    "growth_empty": "jobs/s on an empty table",
    "growth": "jobs/s beside a long history and a long future",
    "growth_urgent": "jobs/s, the future jobs more urgent than the ready ones",
    "growth_others": "jobs/s, due jobs of a type not served here in front",
    "horizon_free": "jobs/s after many jobs, no snapshot held",
    "horizon_held": "jobs/s after many jobs, a snapshot held since before them",
    "rss_busy": "MB resident after the first fifth of many jobs",
    "rss_end": "MB resident after all of them",
    "rss_growth": "MB between the two",
    "rerun": "s from kill -9 until all its jobs run again",
    "rerun_over_lease": "s of it beyond the lease",
}


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and the values it was taken from: on a noisy machine it says little without them."""

    median: float
    lowest: float
    highest: float
    rounds: int

    @classmethod
    def of(cls, values: list[float]) -> Spread | None:
        """None when nothing was measured."""
        if not values:
            return None
        return cls(statistics.median(values), min(values), max(values), len(values))


class Measures:
    """Values by contestant, measure and round.

    A round that failed has no value, and nothing takes its place. One that was disturbed from outside keeps
    its value in the JSON and is left out of every median and ratio.
    """

    def __init__(self) -> None:
        self.round = 0
        self.values: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        self.outside: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        self.failures: list[str] = []

    def record(self, contestant: str, measure: str, value: float, *, outside: float = 0.0) -> None:
        """Keep a value of the current round, and how much of the machine others used meanwhile."""
        self.values[contestant][measure][self.round] = value
        self.outside[contestant][measure][self.round] = outside

    def disturbed(self, contestant: str) -> set[str]:
        """The contestant's measures of the current round that do not count."""
        found = self.outside.get(contestant, {}).items()
        return {measure for measure, rounds in found if rounds.get(self.round, 0.0) > DISTURBED}

    def of(self, contestant: str, measure: str) -> dict[int, float]:
        """The values of the rounds that count; empty when there are none."""
        outside = self.outside.get(contestant, {}).get(measure, {})
        values = self.values.get(contestant, {}).get(measure, {})
        return {number: value for number, value in values.items() if outside.get(number, 0.0) <= DISTURBED}

    def spread(self, contestant: str, measure: str) -> Spread | None:
        """One contestant's own values."""
        return Spread.of(list(self.of(contestant, measure).values()))

    def ratio(self, one: tuple[str, str], other: tuple[str, str]) -> Spread | None:
        """Ratios within each round that has both: a slow minute slows both sides of one round."""
        over, under = self.of(*one), self.of(*other)
        return Spread.of([over[number] / under[number] for number in over if under.get(number)])
