"""The bars Penstock sets itself. They are printed beside what was measured; no test fails by them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.measures import Measures, Spread

ME: Final = "penstock"
ENOUGH: Final = 3  # calm rounds for a verdict
PEERS: Final = ("pgqueuer", "chancy", "oban", "saq", "procrastinate", "dbos")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar, the number that was measured for it over the rounds, and whether its median meets it."""

    title: str
    value: Spread
    bar: str
    met: bool
    clear: bool  # every round says the same; if not, the noise is larger than the distance to the bar

    @property
    def word(self) -> str:
        """What may be said of it: nothing, when too few rounds were left undisturbed."""
        if self.value.rounds < ENOUGH:
            return f"no verdict: {self.value.rounds} calm round{'s' if self.value.rounds > 1 else ''}"
        met = "met" if self.met else "not met"
        return met if self.clear else f"{met}, rounds differ"


@dataclass(frozen=True, slots=True)
class Bar:
    """A measure of ours, alone or over another one, and the least or the most it should be."""

    title: str
    ours: str
    over: tuple[str, str] | None = None
    least: float | None = None
    most: float | None = None
    who: str = ME

    def judge(self, measures: Measures) -> Verdict | None:
        """None when one of its sides was not measured in this run."""
        if self.over is None:
            value = measures.spread(self.who, self.ours)
        else:
            value = measures.ratio((self.who, self.ours), self.over)
        if value is None:
            return None
        clear = self._met(value.lowest) == self._met(value.highest)
        return Verdict(self.title, value, self._bar(), self._met(value.median), clear)

    def _met(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def _bar(self) -> str:
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"


BARS: Final = (
    Bar("drain, 1 process / pgqueuer", "drain1", ("pgqueuer", "drain1"), least=2.0),
    Bar("drain, 2 processes / pgqueuer", "drain2", ("pgqueuer", "drain2"), least=1.6),
    Bar("drain, 1 process / limit", "drain1", ("limit", "drain1"), least=0.6),
    Bar("drain, 2 processes / limit", "drain2", ("limit", "drain2"), least=0.6),
    Bar("drain with full audit / pgqueuer", "drain1", ("pgqueuer", "drain1"), least=1.2, who="penstock-full"),
    Bar("enqueue one by one / bare INSERT", "enqueue", ("limit", "enqueue"), least=0.8),
    Bar("bulk enqueue / pgqueuer", "bulk", ("pgqueuer", "bulk"), least=2.0),
    Bar("pickup p50 / limit", "pickup_p50", ("limit", "pickup_p50"), most=2.0),
    *(
        Bar(f"pickup {cut} / {peer}", f"pickup_{cut}", (peer, f"pickup_{cut}"), most=1.0)
        for peer in PEERS
        for cut in ("p50", "p99")
    ),
    Bar("idle transactions/s", "idle_xact", most=0.5),
    Bar("idle worker, % of a core", "idle_cpu", most=0.5),
    Bar("1M finished + 1M future / empty", "growth", (ME, "growth_empty"), least=0.85),
    Bar("… future more urgent / empty", "growth_urgent", (ME, "growth_empty"), least=0.85),
    Bar("… 100k of another type in front / empty", "growth_others", (ME, "growth_empty"), least=0.85),
    Bar("snapshot held through 200k jobs / free", "horizon_held", (ME, "horizon_free"), least=0.7),
    Bar("RSS at concurrency 100, MB", "rss_busy", most=80.0),
    Bar("RSS at concurrency 100 after all jobs, MB", "rss_end", most=80.0),
    Bar("RSS growth over all jobs, MB (our reading of flat)", "rss_growth", most=2.0),
    Bar("killed worker's jobs run again, s over the lease", "rerun_over_lease", most=2.0),
)


def judge(measures: Measures) -> list[Verdict]:
    """All bars of which both sides were measured in this run."""
    return [verdict for bar in BARS if (verdict := bar.judge(measures)) is not None]
