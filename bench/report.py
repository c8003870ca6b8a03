"""The tables at the end of a run, and the same numbers as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from bench.bars import Verdict, judge
from bench.contestant import Contestant
from bench.measures import UNITS, Measures, Spread
from bench.run import Run
from bench.server import SETTINGS

_COLUMNS: Final = (
    ("enqueue/s", "enqueue", ",.0f"),
    ("bulk/s", "bulk", ",.0f"),
    ("drain 1/s", "drain1", ",.0f"),
    ("drain 2/s", "drain2", ",.0f"),
    ("worker µs", "worker_us", ",.0f"),
    ("server µs", "server_us", ",.0f"),
    ("pickup p50", "pickup_p50", ".2f"),
    ("p99 ms", "pickup_p99", ".2f"),
    ("idle xact/s", "idle_xact", ".2f"),
    ("idle CPU %", "idle_cpu", ".2f"),
    ("server %", "idle_server_cpu", ".2f"),
    ("RSS MB", "rss", ".0f"),
)
_RATIOS: Final = (
    ("drain 1 / pgqueuer", "drain1", ("pgqueuer", "drain1")),
    ("drain 2 / pgqueuer", "drain2", ("pgqueuer", "drain2")),
    ("drain 1 / limit", "drain1", ("limit", "drain1")),
    ("drain 2 / limit", "drain2", ("limit", "drain2")),
    ("enqueue / limit", "enqueue", ("limit", "enqueue")),
    ("bulk / pgqueuer", "bulk", ("pgqueuer", "bulk")),
    ("pickup p50 / limit", "pickup_p50", ("limit", "pickup_p50")),
    ("1M + 1M", "growth", ("", "growth_empty")),
    ("… urgent", "growth_urgent", ("", "growth_empty")),
    ("… others", "growth_others", ("", "growth_empty")),
    ("held xmin", "horizon_held", ("", "horizon_free")),
)


def show(run: Run, contestants: Sequence[Contestant]) -> None:
    """Print medians, ratios and bars."""
    names = [contestant.name for contestant in contestants]
    run.console.print(_medians(run.measures, names))
    if (ratios := _ratios(run.measures, names)) is not None:
        run.console.print(ratios)
    _print_bars(run)
    for failure in run.measures.failures:
        run.console.print(f"[red]failed[/] {failure}")


def _medians(measures: Measures, names: Sequence[str]) -> Table:
    shown = [c for c in _COLUMNS if any(measures.of(name, c[1]) for name in names)]
    table = Table(title="Medians of the rounds")
    table.add_column("contestant", no_wrap=True)
    for title, _, _ in shown:
        table.add_column(title, justify="right")
    for name in names:
        table.add_row(name, *(_median(measures.spread(name, key), form) for _, key, form in shown))
    return table


def _ratios(measures: Measures, names: Sequence[str]) -> Table | None:
    rows = {name: [_ratio(measures, name, key, other) for _, key, other in _RATIOS] for name in names}
    shown = [i for i in range(len(_RATIOS)) if any(row[i] is not None for row in rows.values())]
    if not shown:
        return None
    table = Table(title="Ratios: medians of each round's own")
    table.add_column("contestant", no_wrap=True)
    for i in shown:
        table.add_column(_RATIOS[i][0], justify="right")
    for name, row in rows.items():
        table.add_row(name, *(_median(row[i], ".2f") for i in shown))
    return table


def _ratio(measures: Measures, name: str, key: str, other: tuple[str, str]) -> Spread | None:
    return measures.ratio((name, key), (other[0] or name, other[1]))


def _median(value: Spread | None, form: str) -> str:
    return "" if value is None else format(value.median, form)


def _print_bars(run: Run) -> None:
    """The verdicts; for a run too small to judge only the numbers, and why."""
    verdicts = judge(run.measures)
    if not verdicts:
        return
    table = Table(title="Penstock's bars")
    for title in ("what", "median", "lowest to highest", "rounds", "bar", ""):
        table.add_column(title, justify="left" if title in ("what", "") else "right")
    for verdict in verdicts:
        value = verdict.value
        span = f"{value.lowest:.2f} to {value.highest:.2f}"
        said = _said(verdict) if run.sizes.judged else ""
        table.add_row(verdict.title, f"{value.median:.2f}", span, str(value.rounds), verdict.bar, said)
    run.console.print(table)
    if not run.sizes.judged:
        run.console.print("Small sizes or fewer than three rounds: this shows that it works and says nothing of speed.")


def _said(verdict: Verdict) -> str:
    colour = "yellow" if "no verdict" in verdict.word else "green" if verdict.met else "red"
    return f"[{colour}]{verdict.word}[/]"


def save(run: Run, contestants: Sequence[Contestant], path: Path, seconds: float) -> None:
    """Everything, every round, for whoever wants to draw or compare."""
    document: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
        "server": {"version": run.server.version, "settings": SETTINGS},
        "versions": {c.name: version(c.distribution) for c in contestants if c.distribution},
        "sizes": asdict(run.sizes),
        "seconds": round(seconds, 1),
        "units": UNITS,
        "judged": run.sizes.judged,
        "rounds": run.measures.values,
        "medians": {
            name: {key: spread.median for key in measures if (spread := run.measures.spread(name, key)) is not None}
            for name, measures in run.measures.values.items()
        },
        "outside": run.measures.outside,
        "bars": [{**asdict(verdict), "word": verdict.word} for verdict in judge(run.measures)],
        "failures": run.measures.failures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
