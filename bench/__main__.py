"""`python -m bench`: measure, print, save."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from bench import report
from bench.contestant import NAMES, Contestant, Missing, load
from bench.measures import Measures
from bench.run import Run, Sizes
from bench.scenarios import endurance, growth, idle, latency, throughput
from bench.server import Server

ROUNDS: Final[dict[str, Callable[[Run, Contestant], Awaitable[None]]]] = {
    "enqueue": throughput.enqueue,
    "bulk": throughput.bulk,
    "drain": throughput.drain,
    "latency": latency.latency,
}
ONCE: Final[dict[str, Callable[[Run, Sequence[Contestant]], Awaitable[None]]]] = {
    "idle": idle.idle,
    "growth": growth.growth,
    "horizon": growth.horizon,
    "memory": endurance.memory,
    "crash": endurance.crash,
}
SCENARIOS: Final = (*ROUNDS, *ONCE)


def main(
    *,
    only: Annotated[str, typer.Option(help=f"Scenarios, by comma: {', '.join(SCENARIOS)}.")] = ",".join(SCENARIOS),
    contestants: Annotated[str, typer.Option(help=f"By comma: {', '.join(NAMES)}.")] = ",".join(NAMES),
    rounds: Annotated[int | None, typer.Option(min=1, help="Interleaved rounds; medians are taken over them.")] = None,
    jobs: Annotated[int | None, typer.Option(min=100, help="Jobs of a drain; each contestant has its share.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, one round: shows that it works.")] = False,
    output: Annotated[Path, typer.Option(help="Where the numbers go, as JSON.")] = Path("build/bench.json"),
) -> None:
    """Penstock beside its peers, on one durable PostgreSQL 18 made for the run."""
    console = Console(width=max(150, Console().width), soft_wrap=False)
    sizes = Sizes.quick() if quick else Sizes()
    jobs = jobs or sizes.jobs
    small = sizes.small or jobs < Sizes().jobs
    sizes = replace(sizes, rounds=rounds or sizes.rounds, jobs=jobs, small=small)
    chosen = _known(only, SCENARIOS, "--only")
    loaded = _load(console, _known(contestants, NAMES, "--contestants"))
    try:
        asyncio.run(_bench(console, sizes, chosen, loaded, output))
    except (asyncio.CancelledError, KeyboardInterrupt):
        console.print("stopped; nothing was saved")
        raise typer.Exit(130) from None


def _known(given: str, known: Sequence[str], option: str) -> list[str]:
    """Split a list and refuse what nobody knows; the order is always that of *known*."""
    asked = [part.strip() for part in given.split(",") if part.strip()]
    if unknown := [part for part in asked if part not in known]:
        raise typer.BadParameter(f"{', '.join(unknown)}: choose from {', '.join(known)}", param_hint=option)
    return [name for name in known if name in asked]


def _load(console: Console, names: Sequence[str]) -> list[Contestant]:
    loaded = []
    for name in names:
        try:
            loaded.append(load(name))
        except Missing as missing:
            console.print(f"[yellow]without[/] {missing} (uv sync --group bench; oban needs Python 3.12)")
    return loaded


async def _bench(
    console: Console, sizes: Sizes, chosen: Sequence[str], contestants: list[Contestant], output: Path
) -> None:
    home = output.parent.absolute() / "bench"
    began = time.monotonic()
    _stop_when_told()
    async with Server(home) as server:
        run = Run(sizes, server, home, Measures(), console)
        await _rounds(run, [name for name in chosen if name in ROUNDS], contestants)
        for name in [name for name in chosen if name in ONCE]:
            console.print(f"[bold]{name}[/]")
            run.measures.round = 0
            await run.guard(name, ONCE[name](run, contestants))
    seconds = time.monotonic() - began
    report.show(run, contestants)
    report.save(run, contestants, output, seconds)
    console.print(f"{seconds / 60:.1f} minutes; every round in {output}")
    if not run.measures.failures:
        shutil.rmtree(home, ignore_errors=True)


def _stop_when_told() -> None:
    """SIGTERM ends the run as Ctrl-C does: workers are killed and the server is stopped and removed."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _rounds(run: Run, chosen: Sequence[str], contestants: Sequence[Contestant]) -> None:
    """Contestants take turns within every scenario of every round, in a rotated order: noise hits all."""
    measures = run.measures
    for measures.round in range(run.sizes.rounds if chosen else 0):
        run.console.print(f"[bold]round {measures.round + 1} of {run.sizes.rounds}[/]")
        shift = measures.round % max(1, len(contestants))
        for name in chosen:
            for contestant in (*contestants[shift:], *contestants[:shift]):
                await _turn(run, name, contestant)


async def _turn(run: Run, name: str, contestant: Contestant) -> None:
    """Measure once; once more if others used the machine meanwhile, whatever the first try said."""
    before = run.measures.disturbed(contestant.name)
    await run.guard(f"{name} of {contestant.name}", ROUNDS[name](run, contestant))
    if run.measures.disturbed(contestant.name) - before:
        run.say(contestant, f"{name} was disturbed from outside; once more")
        await run.guard(f"{name} of {contestant.name}", ROUNDS[name](run, contestant))


if __name__ == "__main__":
    typer.run(main)
