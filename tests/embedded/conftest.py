"""Embedded servers, and other processes that use them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.embedded import EmbeddedServer
from tests.support import clusters, seeds

Script = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def unmade(home: Path) -> EmbeddedServer:
    """The packaged server in that home; its first start makes the cluster."""
    return EmbeddedServer(home, settings=clusters.SURVIVES_A_KILL)


@pytest.fixture
def embedded(unmade: EmbeddedServer) -> EmbeddedServer:
    """The same with a cluster as the first start leaves it, not started."""
    seeds.sow(unmade, "empty", lambda _: None)
    return unmade


@pytest.fixture
def python(home: Path) -> Iterator[Script]:
    """Start another Python process on the same home; it talks over its standard streams."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, **variables: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PENSTOCK_HOME": str(home), **variables},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
