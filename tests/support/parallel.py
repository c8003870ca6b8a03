"""Run the tests of one collection in several processes: `--in-parallel N`.

The tests are imported and collected once; then N processes are forked that
have them all, and each runs a piece of the list. A process that is through
with its own takes half of the longest piece that is left. One that dies in a
test fails that test, and another one goes on with the rest of its piece.

What siblings must not share is let go of in the hook `pytest_forked`.
"""

import os
import pickle
import random
import selectors
import signal
import struct
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, NoReturn, Self

import pytest

from tests.support.pieces import NONE, Pieces

OPTION: Final = "--in-parallel"
LENGTH: Final = struct.Struct("<I")  # of what a process says, in front of it
CHUNK: Final = 1024 * 1024


class Hooks:
    """What others may do when a run divides."""

    @pytest.hookspec
    def pytest_forked(self, config: pytest.Config) -> None:
        """Called in every forked process before its first test."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Name the hook."""
    pluginmanager.add_hookspecs(Hooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that says in how many processes."""
    parser.addoption(OPTION, type=int, default=1, metavar="N", help="run the tests in N forked processes")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse what cannot be, and what needs the terminal in the middle of a test."""
    count = config.getoption(OPTION)
    if count < 1:
        raise pytest.UsageError(f"{OPTION} {count}: at least one process runs the tests")
    if count > 1 and (config.option.usepdb or config.option.capture == "no"):
        raise pytest.UsageError(f"{OPTION} cannot go together with --pdb or -s; leave it out")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in forks; None leaves it to pytest, which also tells what went wrong when they were collected."""
    if session.config.getoption(OPTION) == 1 or session.config.option.collectonly or session.testsfailed:
        return None
    with _Forks(session) as forks:
        forks.run()
    return True


@dataclass
class _Fork:
    """A process of the run, as its parent sees it."""

    pid: int
    number: int
    heard: bytearray = field(default_factory=bytearray)

    def words(self) -> Iterator[Any]:
        """What it has said and nobody has looked at."""
        while len(self.heard) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self.heard)[0]
            if len(self.heard) < end:
                return
            said = bytes(self.heard[LENGTH.size : end])
            del self.heard[:end]
            yield pickle.loads(said)  # noqa: S301 - from our own fork


class _Forks:
    """The processes of a run, and what comes of their tests."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._config = session.config
        self._count: int = session.config.getoption(OPTION)
        self._pieces = Pieces(len(session.items), self._count)
        self._living: dict[int, _Fork] = {}  # by the descriptor that it speaks into
        self._selector = selectors.DefaultSelector()
        self._told = 0
        self._broken: list[str] = []

    def __enter__(self) -> Self:
        """Show what tests become, but no path for each: neighbours on the screen come from everywhere."""
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        reporter.showfspath = False
        self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        return self

    def __exit__(self, *_: object) -> None:
        """End those that a broken-off run has left."""
        for fork in self._living.values():
            with suppress(ProcessLookupError):
                os.kill(fork.pid, signal.SIGKILL)
            os.waitpid(fork.pid, 0)
        self._selector.close()

    def run(self) -> None:
        """Run every test in some fork, and tell pytest what became of it."""
        for number in range(self._count):
            self._fork(number)
        while self._living:
            for key, _ in self._selector.select():
                self._listen(key.fd)
            if self._session.shouldfail or self._session.shouldstop:
                self._pieces.clear()
        if self._session.shouldfail:
            raise self._session.Failed(self._session.shouldfail)
        if self._session.shouldstop:
            raise self._session.Interrupted(self._session.shouldstop)
        if self._told != len(self._session.items):
            self._broken.append(f"{self._told} of {len(self._session.items)} tests were run")
        if self._broken:
            raise RuntimeError("; ".join(self._broken))

    def _fork(self, number: int) -> None:
        reading, writing = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            for sibling in self._living:
                os.close(sibling)
            self._selector.close()
            _be_a_fork(self._session, self._pieces, number, writing)
        os.close(writing)
        self._living[reading] = _Fork(pid, number)
        self._selector.register(reading, selectors.EVENT_READ)

    def _listen(self, descriptor: int) -> None:
        fork = self._living[descriptor]
        said = os.read(descriptor, CHUNK)
        fork.heard += said
        for reports in fork.words():
            self._tell(reports)
        if not said:
            self._bury(descriptor)

    def _tell(self, reports: list[dict[str, Any]]) -> None:
        """Hand the reports of one test to everybody who wants them."""
        hook = self._config.hook
        found = [hook.pytest_report_from_serializable(config=self._config, data=data) for data in reports]
        self._log(*found)

    def _log(self, *reports: pytest.TestReport) -> None:
        hook, nodeid, location = self._config.hook, reports[0].nodeid, reports[0].location
        hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        self._told += 1
        hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)

    def _bury(self, descriptor: int) -> None:
        """See how it ended, and let another one go on if that was in the middle of its work."""
        fork = self._living.pop(descriptor)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        code = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
        test = self._pieces.bury(fork.number)
        if code == 0 and test is None:
            return
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if test is None:
            self._broken.append(f"a test process ended with {how}, in no test")
            return
        item = self._session.items[test]
        words = f"the process of this test ended in the middle of it, with {how}"
        self._log(pytest.TestReport(item.nodeid, item.location, {}, "failed", words, "call"))
        self._fork(fork.number)


def _be_a_fork(session: pytest.Session, pieces: Pieces, number: int, writing: int) -> NoReturn:
    """Run tests until there are none left; nothing of the parent's own is done again."""
    code, terminal = 1, os.dup(2)  # which tests cannot capture
    try:
        speaker = _settle(session, number, writing)
        following = pieces.take(number)
        while following is not None:
            test, following = following, pieces.take(number)
            pieces.begin(number, test)
            item = session.items[test]
            nextitem = None if following is None else session.items[following]
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            speaker.speak()
            pieces.begin(number, NONE)
        session.config.hook.pytest_unconfigure(config=session.config)  # what tests left behind is looked for there
        code = 0
    except KeyboardInterrupt:
        pass  # the parent was interrupted as well
    except BaseException:
        os.write(terminal, traceback.format_exc().encode())
    finally:
        os._exit(code)  # without the words that the interpreter has for the end of the parent


def _settle(session: pytest.Session, number: int, writing: int) -> "_Speaker":
    """Get a process's own instead of what is the parent's: standard streams, reports, luck, temporary directory."""
    config: Any = session.config
    capture = config.pluginmanager.get_plugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    config.pluginmanager.unregister(terminal)
    # Comparisons are coloured by the writer of whoever has this name
    config.pluginmanager.register(SimpleNamespace(_tw=terminal._tw), "terminalreporter")
    speaker = _Speaker(session.config, writing)
    config.pluginmanager.register(speaker)
    factory = config._tmp_path_factory
    factory._basetemp = factory.getbasetemp() / f"process-{number}-{os.getpid()}"
    factory._basetemp.mkdir()
    random.seed()
    config.hook.pytest_forked(config=config)
    return speaker


class _Speaker:
    """Sends the reports of a test to the parent, all at once when the test is over."""

    def __init__(self, config: pytest.Config, writing: int) -> None:
        self._config = config
        self._stream = os.fdopen(writing, "wb")
        self._reports: list[Any] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep it."""
        made = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(made)

    def speak(self) -> None:
        """Say what became of the test."""
        said = pickle.dumps(self._reports)
        self._reports = []
        self._stream.write(LENGTH.pack(len(said)) + said)
        self._stream.flush()
