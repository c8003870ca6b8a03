"""`make mutants`: removes one guard at a time and shows that a test fails for each.

Everything happens in copies of the project. A guard whose text is no longer
there, whose tests do not pass with it or do not fail without it, makes the
whole run fail.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.mutants.guard import Guard
from tests.mutants.guards import GUARDS

ROOT: Final = Path(__file__).resolve().parents[2]
COPIED: Final = ("src", "tests", "pyproject.toml", "README.md", "LICENSE")
PATIENCE: Final = 120  # seconds; tests that hang without the guard have noticed as well
FAILED: Final = re.compile(r"^FAILED (\S+)", re.MULTILINE)

console = Console(width=None if sys.stdout.isatty() else 160)


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant."""

    guard: Guard
    caught: bool
    why: str
    seconds: float


def main() -> int:
    """Run the mutants; 0 when every one is caught."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("only", nargs="*", help="only guards whose name contains one of these")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--list", action="store_true", help="name the guards and stop")
    parser.add_argument("--unchecked", action="store_true", help="leave out the run with all guards in place")
    options = parser.parse_args()
    guards = [guard for guard in GUARDS if not options.only or any(part in guard.name for part in options.only)]
    if options.list or not guards:
        console.print("\n".join(guard.name for guard in GUARDS))
        return 0 if options.list else 2
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-mutants-") as folder:
        copies: Queue[Path] = Queue()
        for n in range(options.jobs):
            copies.put(copy_project(Path(folder) / str(n)))
        failing = set() if options.unchecked else failing_unchanged(guards, copies)
        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(lambda guard: judged(guard, copies, failing), guards))
    return tell(outcomes, time.monotonic() - started)


def copy_project(target: Path) -> Path:
    """A copy of what tests need."""
    target.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target / name)
    return target


def failing_unchanged(guards: list[Guard], copies: Queue[Path]) -> set[str]:
    """The tests that fail with every guard in place: they prove nothing about any of them."""
    tests = sorted({test for guard in guards for test in guard.tests})
    copy = copies.get()
    done = run_tests(copy, tests, stop_early=False)
    copies.put(copy)
    if done.returncode not in {0, 1}:
        console.print(done.stdout[-4000:], done.stderr[-2000:], markup=False)
        raise SystemExit("the tests of the guards could not be run")
    return set(FAILED.findall(done.stdout))


def judged(guard: Guard, copies: Queue[Path], failing: set[str]) -> Outcome:
    """Remove *guard* in a free copy, run its tests, and put it back."""
    copy = copies.get()
    started = time.monotonic()
    try:
        caught, why = without(guard, copy, failing)
    finally:
        copies.put(copy)
    outcome = Outcome(guard, caught, why, time.monotonic() - started)
    word = "caught" if caught else f"[red]SURVIVED[/red] ({why})"
    console.print(f"  {word}  {guard.name}  ({outcome.seconds:.0f} s)", highlight=False)
    return outcome


def without(guard: Guard, copy: Path, failing: set[str]) -> tuple[bool, str]:
    """Whether a test misses *guard*, and which."""
    file = copy / guard.file
    original = file.read_text() if file.exists() else ""
    if (count := original.count(guard.text)) != 1:
        return False, f"its text stands {count} times in {guard.file}"
    if any(test.startswith(guard.tests) for test in failing):
        return False, "its tests fail with the guard in place"
    file.write_text(original.replace(guard.text, guard.without))
    try:
        return verdict(copy, guard)
    finally:
        file.write_text(original)


def verdict(copy: Path, guard: Guard) -> tuple[bool, str]:
    """Whether a test failed; an error before a test began proves nothing."""
    try:
        done = run_tests(copy, guard.tests, stop_early=True)
    except subprocess.TimeoutExpired:
        return True, f"hung for {PATIENCE} s"
    failed = FAILED.search(done.stdout)
    if done.returncode == 1 and failed:
        return True, failed[1].rpartition("/")[2]
    if done.returncode == 0:
        return False, "all its tests passed"
    return False, done.stdout.strip().rpartition("\n")[2]


def run_tests(copy: Path, tests: tuple[str, ...] | list[str], *, stop_early: bool) -> subprocess.CompletedProcess[str]:
    """Run pytest on the copy, with a server of its own."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
    environment |= {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        *(["-x"] if stop_early else ["--in-parallel", "2"]),
    ]
    return subprocess.run(
        [*command, *tests],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE if stop_early else None,
        check=False,
    )


def tell(outcomes: list[Outcome], seconds: float) -> int:
    """The table, and the exit code."""
    table = Table("guard", "without it", "seen by")
    for outcome in outcomes:
        word = "caught" if outcome.caught else "[red]survived"
        table.add_row(outcome.guard.name, word, outcome.why)
    console.print(table)
    survived = sum(not outcome.caught for outcome in outcomes)
    console.print(f"{len(outcomes)} guards removed one at a time, {survived} not missed by any test, {seconds:.0f} s")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
