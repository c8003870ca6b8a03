"""`python -m bench.vault`: how soon a saved item starts, beside procrastinate and pgqueuer on the same server.

Bars: save to start p50 ≤ 10 ms and p99 ≤ 50 ms with an idle worker, better than
both peers at p50 and at p99; with NOTIFY off every item starts within the
interval of the poll. Rounds that others disturbed count for nobody; three calm
ones make a verdict.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bench.bars import Bar, Verdict
from bench.contestant import Contestant, Missing, load
from bench.measures import Measures
from bench.run import Run, Sizes
from bench.scenarios.latency import latency
from bench.server import Server
from penstock.settings.vault import DISPATCH

ME: Final = "vault"
POLLING: Final = "vault-polling"
PEERS: Final = ("procrastinate", "pgqueuer")
POLL: Final = float(DISPATCH[1]["poll_seconds"])
SLACK: Final = 0.1  # seconds from the poll to the first line of the handler
BARS: Final = (
    Bar("save to start, p50 ms", "pickup_p50", most=10.0, who=ME),
    Bar("save to start, p99 ms", "pickup_p99", most=50.0, who=ME),
    *(
        Bar(f"{cut} / {peer}", f"pickup_{cut}", (peer, f"pickup_{cut}"), most=1.0, who=ME)
        for peer in PEERS
        for cut in ("p50", "p99")
    ),
    Bar("NOTIFY off: longest wait, s", "longest_wait", most=POLL + SLACK, who=POLLING),
)


def main(
    *,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, in which the three take turns.")] = 3,
    pickups: Annotated[int, typer.Option(min=10, help="Items of each round.")] = 400,
    polled: Annotated[int, typer.Option(min=2, help="Items of the pass without NOTIFY.")] = 30,
    output: Annotated[Path, typer.Option(help="Where the numbers go, as JSON.")] = Path("build/bench-vault.json"),
) -> None:
    """Measure and hold it against the bars; 1 when one is missed."""
    os.environ |= {name: "" for name in os.environ if name.startswith("PENSTOCK_")}
    sizes = replace(Sizes(), rounds=rounds, pickups=pickups)
    raise typer.Exit(asyncio.run(_bench(sizes, polled, output)))


async def _bench(sizes: Sizes, polled: int, output: Path) -> int:
    console = Console(width=max(120, Console().width))
    contestants = _loaded(console)
    home = output.parent.absolute() / "bench-vault"
    async with Server(home) as server:
        run = Run(sizes, server, home, Measures(), console)
        for run.measures.round in range(sizes.rounds):
            shift = run.measures.round % len(contestants)
            for contestant in (*contestants[shift:], *contestants[:shift]):
                await _turn(run, contestant)
            await run.guard(POLLING, without_notify(run, load(POLLING), polled))
    verdicts = [verdict for bar in BARS if (verdict := bar.judge(run.measures)) is not None]
    _tell(run, verdicts)
    _save(run, verdicts, output)
    shutil.rmtree(home, ignore_errors=True)
    return int(bool(run.measures.failures) or any(not verdict.met for verdict in verdicts))


def _loaded(console: Console) -> list[Contestant]:
    found = []
    for name in (ME, *PEERS):
        try:
            found.append(load(name))
        except Missing as missing:
            console.print(f"[yellow]without[/] {missing} (uv sync --all-extras --group bench)")
    return found


async def _turn(run: Run, contestant: Contestant) -> None:
    """Measure once; once more if others used the machine meanwhile, whatever the first try said."""
    before = run.measures.disturbed(contestant.name)
    await run.guard(f"latency of {contestant.name}", latency(run, contestant))
    if run.measures.disturbed(contestant.name) - before:
        run.say(contestant, "was disturbed from outside; once more")
        await run.guard(f"latency of {contestant.name}", latency(run, contestant))


async def without_notify(run: Run, contestant: Contestant, items: int) -> None:
    """Save items at any moment of a few polls; how long the unluckiest one waited for its start."""
    calls: list[int] = []
    async with (
        run.server.database(contestant) as database,
        contestant.client(run.server.dsn(database)) as client,
        run.hire(contestant, database, jobs=items) as crew,
    ):
        crew.release()
        await asyncio.sleep(POLL)  # past the scan at the start
        reading = run.reading()
        for number in range(items):
            await client.wake(number)
            calls.append(time.time_ns())
            await asyncio.sleep(random.uniform(0, 6 * POLL / items))  # noqa: S311  spreads the calls, keeps no secret
        await crew.until(lambda: crew.board.total() >= items, "polls", POLL * 10)
        waits = [(crew.board.started_at(number) - called) / 1e9 for number, called in enumerate(calls)]
        outside = reading.outside_since()
    run.measures.record(contestant.name, "longest_wait", max(waits), outside=outside)
    run.say(contestant, f"longest wait {max(waits):.2f} s, shortest {min(waits):.2f} s, of {items} items")


def _tell(run: Run, verdicts: list[Verdict]) -> None:
    for verdict in verdicts:
        value = verdict.value
        span = f"{value.lowest:.2f} to {value.highest:.2f}"
        run.console.print(f"{verdict.title:<28} {value.median:8.2f}  ({span})  bar {verdict.bar}  {verdict.word}")
    if not verdicts:
        run.console.print("no round was calm enough to count; run it on a machine that does nothing else")


def _save(run: Run, verdicts: list[Verdict], output: Path) -> None:
    document: dict[str, Any] = {
        "server": run.server.version,
        "sizes": asdict(run.sizes),
        "rounds": run.measures.values,
        "outside": run.measures.outside,
        "bars": [{**asdict(verdict), "word": verdict.word} for verdict in verdicts],
        "failures": run.measures.failures,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    run.console.print(f"every round in {output}")


if __name__ == "__main__":
    typer.run(main)
