"""Real worker processes, waited for by what they log and never by sleeping.

They are forked from a server that has imported everything, which saves each of
them half a second; `cold` is `python -m penstock` from its first line.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from tests.support import forks

Process = subprocess.Popen[str] | forks.Child

ROOT = Path(__file__).parents[2]
SAMPLE = "tests.support.sample_app:app"
PATIENCE = 30.0
# What a fork cannot stand for: a process that starts others or itself by its command line, and one that looks at
# its own memory, of which a fork shares most with its server.
WHOLE: Final = {"demo", "--processes", "--rss-limit-mb"}


class WorkerProcess:
    """`penstock worker` as a child of the test; its log lines are read as they come."""

    def __init__(
        self, dsn: str | None, *options: str, app: str = SAMPLE, env: Mapping[str, str] | None = None,
        cold: bool = False,
    ) -> None:  # fmt: skip
        self.process = start_penstock(
            ["worker", app, "--log-format", "json", *options],
            environment(dsn, env),
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cold=cold,
        )
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in list(self.lines) if line.startswith("{")]

    def seen(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        wanted = {"event": event, **fields}
        return [found for found in self.events if wanted.items() <= found.items()]

    def wait_for(self, event: str, count: int = 1, **fields: Any) -> dict[str, Any]:
        """Return the *count*-th line of *event* with these fields, as soon as it is there."""
        deadline = time.monotonic() + PATIENCE
        with self._news:
            while len(found := self.seen(event, **fields)) < count:
                left = deadline - time.monotonic()
                assert left > 0, f"no {event} number {count} with {fields} in:\n" + "\n".join(self.lines[-50:])
                if not self._reader.is_alive() and len(self.seen(event, **fields)) < count:
                    raise AssertionError(f"the process ended without {event} {fields}:\n" + "\n".join(self.lines[-50:]))
                self._news.wait(min(left, 1.0))
        return found[count - 1]

    def ready(self) -> "WorkerProcess":
        self.wait_for("worker_started")
        return self

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait for the end and return the exit code."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self.ended()

    def children(self) -> list[int]:
        """The processes of a supervisor, by what it said."""
        return [found["pid"] for found in self.seen("process_started")]

    def clear_away(self) -> None:
        """End it, and its children, however the test went."""
        for pid in [*self.children(), self.pid]:
            if pid == self.pid and self.process.poll() is not None:
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(PATIENCE)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                self._reader.join(PATIENCE)
                stream.close()


def environment(dsn: str | None, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: without settings of the machine, with *dsn* and *more*."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    given = {} if dsn is None else {"PENSTOCK_DSN": dsn}
    return {**kept, **given, **(more or {})}


def start_penstock(
    arguments: Sequence[str], env: Mapping[str, str], *, cold: bool = False,
    stdout: int | IO[Any] | None = None, stderr: int | IO[Any] | None = None,
) -> Process:  # fmt: skip
    """`python -m penstock` with *arguments* in a process of its own."""
    command = ["-m", "penstock", *arguments]
    if _whole(arguments, env, cold=cold):
        return subprocess.Popen([sys.executable, *command], cwd=ROOT, env=env, stdout=stdout, stderr=stderr, text=True)
    return forks.start(command, env=env, stdout=stdout, stderr=stderr)


def run_penstock(
    arguments: Sequence[str], dsn: str | None, *, env: Mapping[str, str] | None = None, cold: bool = False
) -> subprocess.CompletedProcess[str]:
    """A whole command in a process of its own."""
    command, given, patience = ["-m", "penstock", *arguments], environment(dsn, env), PATIENCE * 6
    if _whole(arguments, given, cold=cold):
        return subprocess.run(
            [sys.executable, *command],
            cwd=ROOT, env=given, capture_output=True, text=True, timeout=patience, check=False,
        )  # fmt: skip
    return forks.run(command, env=given, timeout=patience)


def _whole(arguments: Sequence[str], env: Mapping[str, str], *, cold: bool) -> bool:
    return cold or not WHOLE.isdisjoint(arguments) or not forks.known(env)
