"""The tests of one collection in several processes: each runs once, and whatever happens is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pieces import NONE, Pieces

ROOT = Path(__file__).parents[2]
SAMPLE = """
import os, random, signal
from pathlib import Path
import pytest

HERE = Path(__file__).parent

def note(name, what):
    with (HERE / name).open("a") as file:
        file.write(f"{os.getpid()} {what}\\n")

@pytest.fixture(scope="session")
def house():
    note("houses", "opened")
    yield
    note("houses", "closed")

@pytest.mark.parametrize("number", range(60))
def test_counts(number, house, tmp_path):
    print(f"this is {number}!")
    note("ran", number)
    note("luck", random.random())
    (tmp_path / "mine").touch(exist_ok=False)
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 50:
        os._exit(0)
    assert number != 30
    if number == 40:
        pytest.skip("not today")
"""


def run(directory: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_sample.py").write_text(source)
    (directory / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.parallel", str(directory), *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def noted(directory: Path, name: str) -> list[list[str]]:
    return [line.split() for line in (directory / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A run in three processes, of which two die."""
    directory = tmp_path_factory.mktemp("sample")
    return directory, run(directory, SAMPLE, "--in-parallel", "3", "-ra", "--junitxml=told.xml")


Sample = tuple[Path, subprocess.CompletedProcess[str]]


def test_every_test_runs_once_in_some_process(sample: Sample) -> None:
    ran = noted(sample[0], "ran")
    assert Counter(int(number) for _, number in ran) == Counter(range(60))
    assert 3 <= len({pid for pid, _ in ran}) <= 5, "three, and one for each that died, unless the others were quicker"


def test_everything_that_happened_is_told(sample: Sample) -> None:
    directory, done = sample
    assert done.returncode == 1
    assert "3 failed, 56 passed, 1 skipped" in done.stdout
    assert (directory / "told.xml").read_text().count("<testcase") == 60


def test_a_test_that_ends_its_process_fails_and_says_how(sample: Sample) -> None:
    said = sample[1].stdout
    assert "FAILED test_sample.py::test_counts[7] - the process of this test ended in the middle of it, with" in said
    assert "ended in the middle of it, with signal SIGKILL" in said
    assert "ended in the middle of it, with exit code 0" in said


def test_a_failure_shows_what_its_own_test_has_printed(sample: Sample) -> None:
    _, told = sample[1].stdout.split("test_counts[30]", 1)
    assert "this is 30!" in told
    assert "this is 29!" not in told


def test_each_process_has_session_fixtures_and_luck_of_its_own(sample: Sample) -> None:
    directory, _ = sample
    houses = Counter((what, pid) for pid, what in noted(directory, "houses"))
    opened, closed = ({pid for what, pid in houses if what == wanted} for wanted in ("opened", "closed"))
    ran = {number: pid for pid, number in noted(directory, "ran")}
    assert opened == set(ran.values())
    assert opened - closed == {ran["7"], ran["50"]}, "the two that died could not"
    assert set(houses.values()) == {1}
    assert len({luck for _, luck in noted(directory, "luck")}) == 60


def test_what_a_process_finds_after_its_last_test_fails_the_run(tmp_path: Path) -> None:
    late = "class Late:\n    def __del__(self): 1 / 0\n"
    leaves = "def test_leaves_something():\n    late = Late()\n    late.itself = late\n"
    done = run(tmp_path, f"{late}\n{leaves}\ndef test_leaves_nothing(): ...\n", "--in-parallel", "2")
    assert "2 passed" in done.stdout
    assert "a test process ended with exit code 1, in no test" in done.stdout
    assert "ZeroDivisionError" in done.stderr
    assert done.returncode == pytest.ExitCode.INTERNAL_ERROR


def test_enough_failures_end_the_run(tmp_path: Path) -> None:
    source = "import pytest\n@pytest.mark.parametrize('n', range(2000))\ndef test_fails(n): assert n < 0, 'so it is'\n"
    done = run(tmp_path, source, "--in-parallel", "2", "-x")
    assert done.returncode == 1
    assert "stopping after" in done.stdout
    assert 1 <= done.stdout.count("so it is") < 500


@pytest.mark.parametrize(
    ("source", "options", "code", "complaint"),
    [
        ("import nowhere\n", ("--in-parallel", "2"), 2, "No module named 'nowhere'"),
        ("", ("--in-parallel", "0"), 4, "--in-parallel 0: at least one process runs the tests"),
        ("", ("--in-parallel", "2", "-s"), 4, "--in-parallel cannot go together with --pdb or -s; leave it out"),
    ],
)
def test_what_cannot_be_run_is_said_as_without_it(
    tmp_path: Path, source: str, options: tuple[str, ...], code: int, complaint: str
) -> None:
    done = run(tmp_path, source, *options)
    assert done.returncode == code
    assert complaint in done.stdout + done.stderr


@given(st.integers(0, 40), st.integers(1, 5), st.data())
def test_every_number_is_handed_out_once_whoever_is_quick_and_whoever_dies(
    tests: int, count: int, data: st.DataObject
) -> None:
    pieces = Pieces(tests, count)
    waiting: dict[int, int | None] = {number: pieces.take(number) for number in range(count)}
    ran: list[int] = []
    while any(test is not None for test in waiting.values()):
        number = data.draw(st.sampled_from([n for n, test in waiting.items() if test is not None]))
        test, waiting[number] = waiting[number], pieces.take(number)
        assert test is not None
        pieces.begin(number, test)
        ran.append(test)
        if data.draw(st.integers(0, 9)) == 0:
            assert pieces.bury(number) == test
            waiting[number] = pieces.take(number)
        pieces.begin(number, NONE)
    assert sorted(ran) == list(range(tests))
    assert pieces.left() == 0


def test_nothing_is_left_to_take_when_all_is_cleared() -> None:
    pieces = Pieces(10, 2)
    assert pieces.take(0) == 0
    pieces.clear()
    assert (pieces.take(0), pieces.take(1), pieces.left()) == (None, None, 0)
