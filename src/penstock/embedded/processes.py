"""What the kernel knows about a server: its postmaster, and backends it left behind.

A pid file alone proves nothing. After a reboot, and in every container, the
number in it soon belongs to somebody else. A process of a server is known by
its working directory: PostgreSQL's own processes all live in the data
directory, and nothing else does.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from penstock.embedded import folders
from penstock.embedded.errors import EmbeddedServerError

PID_FILE = "postmaster.pid"
READY = "ready"
STATUS_LINE = 7  # of postmaster.pid: pid, data, start, port, socket, host, memory, status


def postmaster(data: Path) -> int | None:
    """Return the pid of the server that runs on *data*, if one does."""
    lines = _pid_file(data)
    if not lines or not lines[0].strip().isdigit():
        return None
    pid = int(lines[0])
    return pid if lives_in(pid, data) else None


def was_killed(data: Path) -> bool:
    """Whether a server of *data* has ended without taking its pid file away, as it does when it stops."""
    return bool(_pid_file(data)) and postmaster(data) is None


def is_ready(data: Path) -> bool:
    """Tell whether the server on *data* has written that it accepts connections."""
    lines = _pid_file(data)
    return len(lines) > STATUS_LINE and lines[STATUS_LINE].strip() == READY


def lives_in(pid: int, data: Path) -> bool:
    """Tell whether *pid* is alive and works in *data*; zombies and strangers do not."""
    try:
        here = data.stat(follow_symlinks=os.geteuid() != 0)
        return os.path.samestat(Path(f"/proc/{pid}/cwd").stat(), here)
    except OSError:
        return False


def inhabitants(data: Path) -> list[int]:
    """Return every process that works in *data*, the postmaster among them."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if lives_in(pid, data)]


def evict_orphans(data: Path, *, patience: float = 5.0) -> None:
    """End the backends of a server whose postmaster is gone.

    They notice its death by themselves unless they are busy; PostgreSQL
    refuses to start while one of them lives. Nothing they do can still
    commit, so after *patience* seconds they are killed.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + patience
        orphans = inhabitants(data)  # looks at every process of the machine, so it is asked no more often than need be
        _signal_all(orphans, number)
        while orphans and time.monotonic() < deadline:
            time.sleep(0.02)
            orphans = inhabitants(data)
        if not orphans:
            return


def clear_traces(data: Path, socket: Path) -> None:
    """Remove the pid file and the socket of a server that is gone.

    PostgreSQL clears up after a dead process by itself, but takes a zombie, or
    a stranger who got the number since, for a living server and refuses to
    start. The caller holds the home's lock and has evicted the orphans, so
    nothing can own these files.
    """
    if not inhabitants(data):
        with folders.opened_itself(data) as folder:
            folder.remove(PID_FILE)
        with folders.opened_itself(socket) as folder:
            for name in folder.names():
                if name.startswith(".s.PGSQL."):
                    folder.remove(name)


def _signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _pid_file(data: Path) -> list[str]:
    try:
        with folders.opened_itself(data) as folder:
            return (folder.read(PID_FILE) or "").splitlines()
    except (OSError, EmbeddedServerError):
        return []
