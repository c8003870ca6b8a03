"""How much memory this process holds, and what of it is looked through for garbage."""

from __future__ import annotations

import gc
import os
from pathlib import Path

_STATM = Path("/proc/self/statm")


def rss_bytes() -> int | None:
    """The resident set of this process; None where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def settle() -> None:
    """Have the garbage collector leave alone what is there once a process has started: all of it stays.

    A full collection looks through every module and model that was imported:
    36 ms for a worker of the vault, in which no handler starts.
    """
    gc.collect()
    gc.freeze()
