"""The server that forks the children of tests: a fork is what a fresh process would be."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.support import clusters, forks
from tests.support.processes import PATIENCE, environment, run_penstock, start_penstock
from tests.support.servers import wait_for_death

Run = Callable[..., subprocess.CompletedProcess[str]]
WAITS = "import signal\nprint('here', flush=True)\nsignal.pause()"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the lines of a program as a file in a fork."""

    def forked(source: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return forks.run([_file(tmp_path, source), *arguments], env={**os.environ, **more}, timeout=PATIENCE)

    return forked


def _file(directory: Path, source: str) -> str:
    path = directory / "program.py"
    path.write_text(source, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        ("", 0, ""),
        ("raise SystemExit", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit(-1)", 255, ""),
        ("import sys; sys.exit('no more')", 1, "no more\n"),
        ("import os; os._exit(9)", 9, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    ],
)
def test_its_end_is_told_as_that_of_any_process(run: Run, source: str, code: int, said: str) -> None:
    done = run(source)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


@pytest.mark.parametrize(("error", "code"), [("LookupError", 1), ("KeyboardInterrupt", -signal.SIGINT)])
def test_an_error_that_nobody_caught_ends_it_with_a_traceback(run: Run, error: str, code: int) -> None:
    done = run(f"raise {error}('why')")
    assert done.returncode == code
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith(f"{error}: why\n")


def test_threads_are_waited_for_then_the_exit_functions_run_then_all_is_written(run: Run) -> None:
    done = run(
        "import atexit, sys, threading, time\n"
        "atexit.register(lambda: print('last', end=''))\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread', end=' '))).start()\n"
        "print('first', end=' ')\n"
        "sys.exit(3)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "first thread last", "")


def test_output_that_cannot_be_written_is_told_with_120(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = _file(tmp_path, "import sys\nsys.stdout = open(1, 'w', closefd=False)\nprint('lost')")
    done = forks.run([program], env=os.environ, timeout=PATIENCE, stdout=writing)
    os.close(writing)
    assert (done.returncode, "BrokenPipeError" in done.stderr) == (120, True)


def test_it_has_the_environment_arguments_and_directory_it_was_given_and_no_other(run: Run, tmp_path: Path) -> None:
    program = (
        "import os, sys, tempfile, time\n"
        "print(__name__, sys.argv[1:], os.environ.get('PENSTOCK_NEW'), 'PATH' in os.environ, time.tzname[0])\n"
        "print(tempfile.gettempdir(), sys.path[0], os.getcwd(), sys.stdin.read() == '', sys.orig_argv[1:] == sys.argv)"
    )
    done = run(program, "a", "b c", PENSTOCK_NEW="yes", TZ="XYZ+3", TMPDIR=str(tmp_path))
    bare = forks.run([_file(tmp_path, program)], env={"TZ": "UTC"}, cwd="/", timeout=PATIENCE)

    first, second = done.stdout.splitlines()
    assert first == "__main__ ['a', 'b c'] yes True XYZ"
    assert second == f"{tmp_path} {tmp_path} {forks.ROOT} True True"
    assert bare.stdout.splitlines()[0] == "__main__ [] None False UTC"
    assert bare.stdout.splitlines()[1].endswith(f" {tmp_path} / True True")


def test_it_holds_nothing_of_the_server_and_is_as_random_as_a_fresh_process(run: Run) -> None:
    program = (
        "import os, random, signal, threading\n"
        "print(random.random(), sorted(map(int, os.listdir('/proc/self/fd')))[:-1], threading.active_count())\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
    )
    first, second = run(program).stdout.splitlines(), run(program).stdout.splitlines()
    assert first[0].partition(" ")[2] == second[0].partition(" ")[2] == "[0, 1, 2] 1"
    assert first[0] != second[0]
    assert first[1] == "set() True"


def test_signals_reach_it_and_several_live_at_once(tmp_path: Path) -> None:
    program = _file(tmp_path, WAITS)
    started = [forks.start([program], env=os.environ, stdout=subprocess.PIPE) for _ in range(3)]
    for child in started:
        assert _read(child.stdout) == "here\n"
        assert child.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        started[0].wait(0.01)
    for child, number in zip(started, (signal.SIGTERM, signal.SIGUSR1, signal.SIGKILL), strict=True):
        child.send_signal(number)
        with child:
            assert child.wait(PATIENCE) == child.poll() == -number
        child.kill()  # it has ended: nobody else may be hit


def _read(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def test_a_command_is_forked_unless_that_would_not_be_the_same() -> None:
    plain = environment(None)
    assert isinstance(_ended(["--version"], plain), forks.Child)
    assert isinstance(_ended(["worker", "--processes", "0"], plain), subprocess.Popen)
    for name in ("PYTHONPATH", "PROMETHEUS_MULTIPROC_DIR"):  # read by an import
        assert not forks.known({**plain, name: "/nowhere"})
    assert run_penstock(["--version"], None).stdout == run_penstock(["--version"], None, cold=True).stdout


def _ended(arguments: list[str], env: dict[str, str]) -> object:
    with start_penstock(arguments, env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        return process


@pytest.fixture
def private() -> Iterator[tuple[forks.ForkServer, IO[str]]]:
    """A server of its own that is soon there, and the lock that it lives by."""
    directory = clusters.new_home("forks")
    with (directory / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield forks.ForkServer(directory, preload=False), lock
    shutil.rmtree(directory)


def test_it_ends_with_the_run_and_takes_its_children_along(
    private: tuple[forks.ForkServer, IO[str]], tmp_path: Path
) -> None:
    server, lock = private
    child = server.start([_file(tmp_path, WAITS)], env=os.environ, stdout=subprocess.PIPE)
    assert _read(child.stdout) == "here\n"
    serving = psutil.Process(child.pid).ppid()
    fcntl.flock(lock, fcntl.LOCK_UN)
    wait_for_death(child.pid)
    wait_for_death(serving)
    with pytest.raises(forks.ForkServerGone), child:
        child.wait(PATIENCE)
    with pytest.raises(forks.ForkServerGone):
        child.poll()


def test_a_server_that_died_is_told_and_not_waited_for(
    private: tuple[forks.ForkServer, IO[str]], tmp_path: Path
) -> None:
    server, _ = private
    program = _file(tmp_path, WAITS)
    child = server.start([program], env=os.environ, stdout=subprocess.PIPE)
    assert _read(child.stdout) == "here\n"
    serving = psutil.Process(child.pid).ppid()
    try:
        os.kill(serving, signal.SIGKILL)
        wait_for_death(serving)
        with pytest.raises(forks.ForkServerGone, match="has gone: the status of"):
            child.wait(PATIENCE)
        with pytest.raises(forks.ForkServerGone, match="does not answer"):
            server.start([program], env=os.environ)
    finally:
        os.kill(child.pid, signal.SIGKILL)  # nobody else does it now
    with pytest.raises(forks.ForkServerGone), child:
        child.poll()


def test_a_server_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(forks.STARTED_WITH, "PYTHONHASHSEED", "no number")
    with pytest.raises(forks.ForkServerGone, match="PYTHONHASHSEED"):
        forks.ForkServer(tmp_path).start(["-m", "penstock"], env=os.environ)
