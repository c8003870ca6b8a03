"""Data directories that a test run makes once and copies: to make one takes a second, a copy takes 50 ms."""

import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from penstock.embedded import EmbeddedServer
from tests.support import clusters

Grow = Callable[[EmbeddedServer], object]


def sow(server: EmbeddedServer, name: str, grow: Grow) -> None:
    """Give *server*, which was never started, the data of the seed *name*.

    The first test that asks starts a server in the seed's place and lets
    *grow* work on it; whoever asks at the same time waits, and copies.
    """
    major = server.binaries.major
    seed = EmbeddedServer(_place() / f"seed-{name}-{major}", server.binaries, server.settings)
    with _place().joinpath(f"seed-{name}-{major}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _grown(seed).exists():
            seed.start()
            grow(seed)
            seed.stop()
            _grown(seed).touch()
    subprocess.run(["cp", "-a", seed.home.data, server.home.data], check=True)  # noqa: S607 - every system has it


def _place() -> Path:
    return Path(os.environ[clusters.DIRECTORY_VARIABLE])


def _grown(seed: EmbeddedServer) -> Path:
    return seed.path / "grown"
