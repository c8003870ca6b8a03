"""`python -m bench.against REF`: this tree beside that of a commit, in interleaved pairs.

`make bench` says where Penstock is among its peers; this says whether a change made it slower. Every
measurement is a process of its own with a database of its own, migrated by the tree it measures. Both trees
are measured one right after the other and only the ratio of the two is used, because absolute rates move
more from one minute to the next than most changes move them.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from bench.pairs import MEASURES, Measure, Pair, judge, this_goes_first
from bench.server import Server
from bench.side import Answer, Task
from bench.tree import Tree, Unknown, this_tree, tree_of

PATIENCE: Final = 2.0  # seconds to wait for a calm machine; the pair shares what is left of the noise
# A pair of all three takes about 40 seconds.
JOBS: Final = 15_000
PICKUPS: Final = 100
SINGLES: Final = 2_000
TRIES: Final = 3
NOT_MET: Final = 1
USAGE: Final = 2


@dataclass(frozen=True, slots=True)
class Volume:
    """How much is measured."""

    jobs: int
    pickups: int
    singles: int
    tries: int


class Failed(Exception):
    """A measurement ended without a number."""


def main(
    *,
    ref: Annotated[str, typer.Argument(help="A commit, branch or tag to compare with.")],
    pairs: Annotated[int, typer.Option(min=1, help="Interleaved pairs; the median ratio decides.")] = 7,
    only: Annotated[str, typer.Option(help=f"By comma: {', '.join(MEASURES)}.")] = ",".join(MEASURES),
    jobs: Annotated[int, typer.Option(min=100, help="Jobs of a drain, before Penstock's share of three.")] = JOBS,
    pickups: Annotated[int, typer.Option(min=5, help="Jobs whose pickup is timed.")] = PICKUPS,
    singles: Annotated[int, typer.Option(min=10, help="Jobs enqueued one by one.")] = SINGLES,
    tries: Annotated[int, typer.Option(min=1, help="Tries of each measurement, of which the best counts.")] = TRIES,
) -> None:
    """Measure this tree and REF in turns; exit code 1 when a median ratio is below 0.97."""
    asked = [part.strip() for part in only.split(",") if part.strip()]
    if not asked or (unknown := [part for part in asked if part not in MEASURES]):
        raise typer.BadParameter(f"{', '.join(unknown) if asked else only!r}: choose from {', '.join(MEASURES)}")
    with tempfile.TemporaryDirectory(prefix="penstock-against-") as folder:
        try:
            other = tree_of(ref, Path(folder))
            met = asyncio.run(compare(this_tree(), other, asked, pairs, Volume(jobs, pickups, singles, tries)))
        except Unknown as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(USAGE) from None
        except Failed as error:
            typer.echo(f"a measurement failed, so there is no verdict: {error}", err=True)
            raise typer.Exit(USAGE) from None
    raise typer.Exit(0 if met else NOT_MET)


async def compare(this: Tree, other: Tree, names: Sequence[str], pairs: int, volume: Volume) -> bool:
    """Print every pair and the verdicts; return whether all of them are met."""
    home = await asyncio.to_thread(_home)
    found: dict[str, list[Pair]] = {name: [] for name in names}
    began = time.monotonic()
    print(f"this tree beside {other.name}; ratios above 1: this tree is faster", flush=True)
    try:
        async with Server(home):
            for number in range(pairs):
                for name in names:
                    found[name].append(await _pair(number, name, this, other, home, volume))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    verdicts = {name: judge(MEASURES[name], found[name]) for name in names}
    for name, verdict in verdicts.items():
        print(f"{name:<8} median of {pairs}: {verdict.word}")
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    return all(verdict.met for verdict in verdicts.values())


def _home() -> Path:
    """A directory that the account of root's server can enter."""
    home = Path(tempfile.mkdtemp(prefix="penstock-against-server-"))
    home.chmod(0o711)
    return home


async def _pair(number: int, name: str, this: Tree, other: Tree, home: Path, volume: Volume) -> Pair:
    measure = MEASURES[name]
    task = Task(str(home), name, volume.jobs, volume.pickups, volume.singles, PATIENCE, volume.tries)
    answers: dict[str, Answer] = {}
    for tree in (this, other) if this_goes_first(number) else (other, this):
        answers[tree.name] = await _measure(tree, task)
    mine, theirs = answers[this.name], answers[other.name]
    pair = Pair(mine.value, theirs.value)
    print(_line(number, name, measure, pair, max(mine.outside, theirs.outside)), flush=True)
    return pair


async def _measure(tree: Tree, task: Task) -> Answer:
    process = await asyncio.create_subprocess_exec(
        *task.command(),
        cwd=tree.root,
        env=tree.environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    except BaseException:
        process.kill()
        raise
    if process.returncode != 0:
        last = errors.decode(errors="replace").strip().splitlines()[-3:]
        raise Failed(f"{task.measure} of {tree.name}: {' | '.join(last)}")
    return Answer(**json.loads(output))


def _line(number: int, name: str, measure: Measure, pair: Pair, outside: float) -> str:
    this, other = format(pair.this, measure.form), format(pair.other, measure.form)
    ratio = pair.ratio(is_time=measure.is_time)
    return (
        f"pair {number + 1}  {name:<8} this {this:>9}  REF {other:>9} {measure.unit:<6}  "
        f"ratio {ratio:.3f}  (others used {outside:.0%} of the machine)"
    )


if __name__ == "__main__":
    typer.run(main)
