"""`make bench-against`: what pairs of measurements say about two trees."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.pairs import MEASURES, Pair, judge, this_goes_first
from bench.tree import ROOT, Unknown, tree_of

a_checkout = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout has commits to compare with")
RATE, TIME = MEASURES["drain"], MEASURES["pickup"]


def test_a_higher_rate_and_a_shorter_time_are_both_better() -> None:
    assert Pair(this=200, other=100).ratio(is_time=False) == 2.0
    assert Pair(this=1.0, other=2.0).ratio(is_time=True) == 2.0


def test_the_median_ratio_decides_and_not_the_worst_nor_the_mean() -> None:
    disturbed = Pair(this=1, other=100)
    assert judge(RATE, [disturbed, Pair(98, 100), Pair(99, 100), disturbed, Pair(100, 100), *[Pair(97, 100)] * 2]).met
    assert not judge(RATE, [Pair(1000, 100), *[Pair(96, 100)] * 2]).met


@pytest.mark.parametrize(("this", "met"), [(97, True), (96.9, False)])
def test_the_bar_itself_is_still_met(this: float, *, met: bool) -> None:
    assert judge(RATE, [Pair(this, 100)]).met is met


def test_a_time_that_grew_is_below_the_bar() -> None:
    verdict = judge(TIME, [Pair(this=1.1, other=1.0)])
    assert not verdict.met
    assert "NOT met (bar 0.97)" in verdict.word


def test_pairs_on_both_sides_of_the_bar_are_said_to_differ() -> None:
    torn = judge(RATE, [Pair(80, 100), Pair(99, 100), Pair(120, 100)])
    assert "0.990 (0.800 to 1.200), met (bar 0.97; pairs differ)" in torn.word
    assert "differ" not in judge(RATE, [Pair(98, 100), Pair(120, 100)]).word


def test_trees_take_turns_in_going_first() -> None:
    assert [this_goes_first(number) for number in range(4)] == [True, False, True, False]


@a_checkout
def test_a_reference_that_names_no_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="'no-such-branch' names no commit"):
        tree_of("no-such-branch", tmp_path)


@a_checkout
def test_the_other_tree_is_the_commits_engine_under_this_trees_bench(tmp_path: Path) -> None:
    other = tree_of("HEAD", tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", "import penstock, bench.side; print(penstock.__file__, bench.side.__file__)"],
        cwd=other.root,
        env=other.environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert found == [str(tmp_path / "src/penstock/__init__.py"), str(tmp_path / "bench/side.py")]
    assert Path(found[1]).read_text() == (ROOT / "bench/side.py").read_text()


def test_without_a_reference_the_target_says_what_to_name() -> None:
    make = shutil.which("make")
    assert make
    done = subprocess.run([make, "--silent", "bench-against"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "make bench-against REF=main" in done.stdout


@a_checkout
def test_both_trees_are_measured_and_judged() -> None:
    command = [
        sys.executable,
        "-m",
        "bench.against",
        "HEAD",
        "--pairs",
        "1",
        "--only",
        "enqueue",
        "--singles",
        "50",
        "--tries",
        "1",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    assert "pair 1  enqueue" in done.stdout
    assert "median of 1" in done.stdout
