"""A private server for tests that stop, kill and restart PostgreSQL."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.embedded import EmbeddedServer, processes
from tests.support import clusters, seeds


@dataclass(frozen=True)
class PrivateServer:
    """A server of one test alone, with roles and schema, safe to break."""

    embedded: EmbeddedServer

    @property
    def dsn(self) -> str:
        """The DSN of the owner, who is no superuser."""
        return self.embedded.url()

    @property
    def superuser_dsn(self) -> str:
        """The DSN for what only a superuser may do."""
        return self.embedded.superuser_url()

    @property
    def pid(self) -> int:
        """The postmaster's process id; fails when the server is down."""
        pid = processes.postmaster(self.embedded.home.data)
        assert pid is not None, "the server is down"
        return pid

    def role_dsn(self, role: str) -> str:
        """The DSN of one of the five roles."""
        return self.embedded.url(user=role)

    def start(self) -> None:
        """Start it, after a stop or a kill."""
        self.embedded.start()

    def stop(self) -> None:
        """Stop it as an operator would: connections are closed, data is flushed."""
        self.embedded.stop()

    def kill(self) -> None:
        """Kill the postmaster with -9 and return when it is gone."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        wait_for_death(pid)

    def freeze(self) -> None:
        """Stop every process of the server without closing a connection."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in processes.inhabitants(self.embedded.home.data):
            with suppress(ProcessLookupError):  # a backend may have ended since
                os.kill(pid, number)


def private_server() -> PrivateServer:
    """Start a server in a directory of its own, with roles and schema in place."""
    embedded = EmbeddedServer(
        clusters.new_home("private"),
        clusters.binaries_under_test(),
        clusters.SURVIVES_A_KILL,
    )
    try:
        seeds.sow(embedded, "private", _furnish)
        embedded.start()
    except BaseException:
        clusters.remove_server(embedded)
        raise
    return PrivateServer(embedded)


@contextmanager
def campaign_server() -> Iterator[PrivateServer]:
    """A private server for a campaign from the command line; if that is killed, the next run clears it away."""
    with clusters.session_directory():
        yield private_server()


def _furnish(embedded: EmbeddedServer) -> None:
    clusters.create_roles(embedded.superuser_url())
    clusters.migrate_template(embedded.url())


def wait_for_death(pid: int, *, patience: float = 10.0) -> None:
    """Return when no process *pid* runs any more; fail after *patience* seconds."""
    deadline = time.monotonic() + patience
    while _runs(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    """Tell whether *pid* runs; a zombie waits for its parent and does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in {"Z", "X"}
