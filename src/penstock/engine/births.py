"""Whether the process behind a worker's row still is the one that wrote it.

A pid means something on one machine and in one container only, and is given
to another process later. So a worker stores the boot of its machine, its
space of pids and the tick at which it started. Where /proc cannot tell, nobody
is called dead: the name then is free when its owner has been silent.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_STATE, _STARTED = 0, 19  # fields of /proc/<pid>/stat after the name of the program


def birth() -> str | None:
    """What tells this process from all others, as `<space>@<tick>`."""
    space, started = _space(), _started(os.getpid())
    return f"{space}@{started}" if space and started else None


def is_here(stored: str | None) -> bool:
    """Whether the process of a row has, or had, its pid where this one has its own."""
    return stored is not None and stored.rpartition("@")[0] == _space()


def is_gone(pid: int, stored: str | None) -> bool:
    """Whether the process that wrote *pid* and *stored* has certainly ended."""
    if stored is None or not is_here(stored):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it lives, as another user, whose processes may be hidden in /proc
        pass
    started = _started(pid)
    return started is not None and started != stored.rpartition("@")[2]


def _space() -> str | None:
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """The tick at which *pid* started; `dead` for one whose parent has not yet asked for its end."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "dead" if fields[_STATE] in "ZX" else fields[_STARTED]
