"""Pairs of measurements of two trees, and what they say together."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

BAR: Final = 0.97  # of the other tree's speed: below it something got slower


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing that is measured of both trees."""

    key: str  # its name among the measures of a run
    unit: str
    form: str
    is_time: bool = False  # less is better

    def best(self, values: Iterable[float]) -> float:
        """The highest rate, or the shortest time."""
        return min(values) if self.is_time else max(values)


MEASURES: Final = {
    "drain": Measure("drain1", "jobs/s", ",.0f"),
    "pickup": Measure("pickup_p50", "ms", ".3f", is_time=True),
    "enqueue": Measure("enqueue", "jobs/s", ",.0f"),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """The same measurement of this tree and of the other one, one right after the other."""

    this: float
    other: float

    def ratio(self, *, is_time: bool) -> float:
        """How fast this tree is beside the other one: 1 is equal, more is better, also for times."""
        return self.other / self.this if is_time else self.this / self.other


@dataclass(frozen=True, slots=True)
class Verdict:
    """The median of the ratios, whether it reaches the bar, and how far the pairs lie apart."""

    median: float
    met: bool
    lowest: float
    highest: float

    @property
    def clear(self) -> bool:
        """Every pair says the same; if not, the noise is larger than the distance to the bar."""
        return (self.lowest >= BAR) == (self.highest >= BAR)

    @property
    def word(self) -> str:
        """The verdict as it is printed."""
        differ = "" if self.clear else "; pairs differ"
        met = "met" if self.met else "NOT met"
        return f"{self.median:.3f} ({self.lowest:.3f} to {self.highest:.3f}), {met} (bar {BAR:g}{differ})"


def judge(measure: Measure, pairs: Sequence[Pair]) -> Verdict:
    """Decide by the median: one disturbed pair, in whatever favour, changes nothing."""
    ratios = [pair.ratio(is_time=measure.is_time) for pair in pairs]
    median = statistics.median(ratios)
    return Verdict(median, median >= BAR, min(ratios), max(ratios))


def this_goes_first(pair: int) -> bool:
    """Trees take turns in going first, because the second one finds the machine as the first one left it."""
    return pair % 2 == 0
