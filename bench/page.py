"""`python -m bench.page`: put the numbers of a run into docs/explanation/performance.md.

The page's tables are never typed: what stands between its two marks is replaced by what the run wrote,
bars that are not met included. A run too small to judge, or one with failures nobody looked at, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

PAGE: Final = Path("docs/explanation/performance.md")
BEGIN: Final = "<!-- measured: begin -->"
END: Final = "<!-- measured: end -->"
_COLUMNS: Final = (
    ("enqueue/s", "enqueue", ",.0f"),
    ("bulk/s", "bulk", ",.0f"),
    ("drain, 1 process/s", "drain1", ",.0f"),
    ("drain, 2/s", "drain2", ",.0f"),
    ("CPU µs/job, worker", "worker_us", ",.0f"),
    ("PostgreSQL", "server_us", ",.0f"),
    ("pickup p50 ms", "pickup_p50", ".2f"),
    ("p99 ms", "pickup_p99", ".2f"),
    ("idle xact/s", "idle_xact", ".2f"),
    ("idle CPU %", "idle_cpu", ".2f"),
)


def main(
    *,
    source: Annotated[Path, typer.Argument(help="What `python -m bench` wrote.")] = Path("build/bench.json"),
    with_failures: Annotated[
        bool, typer.Option(help="Publish a run in which something failed, with the list.")
    ] = False,
) -> None:
    """Rewrite the measured part of the performance page."""
    run = json.loads(source.read_text())
    if not run["judged"]:
        raise typer.BadParameter(f"{source} is a small run, which says nothing of speed; run `make bench` first")
    if run["failures"] and not with_failures:
        raise typer.BadParameter(f"{source} has failures ({run['failures'][0]}); look first, then add --with-failures")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{_section(run)}{END}{after}")


def _section(run: Mapping[str, Any]) -> str:
    return "\n".join([*_circumstances(run), "", *_medians(run), "", *_bars(run), "", *_failures(run["failures"])])


def _circumstances(run: Mapping[str, Any]) -> Iterable[str]:
    machine, sizes = run["machine"], run["sizes"]
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items() if name != "penstock-full")
    yield (
        f"{sizes['rounds']} interleaved rounds on {machine['cores']} cores, Python {machine['python']}, "
        f"PostgreSQL {run['server']['version']}, {run['seconds'] / 60:.0f} minutes. Versions: {versions}."
    )


def _medians(run: Mapping[str, Any]) -> Iterable[str]:
    yield _row(["", *(title for title, _, _ in _COLUMNS)])
    yield _row(["---", *("---:" for _ in _COLUMNS)])
    for name, medians in run["medians"].items():
        yield _row([name, *(format(medians[key], form) if key in medians else "" for _, key, form in _COLUMNS)])


def _bars(run: Mapping[str, Any]) -> Iterable[str]:
    yield _row(["bar", "median", "lowest to highest", "should be", ""])
    yield _row(["---", "---:", "---:", "---:", "---"])
    for bar in run["bars"]:
        value = bar["value"]
        span = f"{value['lowest']:.2f} to {value['highest']:.2f}"
        said = bar["word"].replace("not met", "**not met**")
        yield _row([bar["title"], f"{value['median']:.2f}", span, bar["bar"], said])


def _failures(failures: Sequence[str]) -> Iterable[str]:
    if failures:
        yield "Failed in this run, and missing from the medians:"
        yield ""
        yield from (f"- {failure.split(' (all of it in')[0]}" for failure in failures)
    yield ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    typer.run(main)
