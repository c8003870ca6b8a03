"""Commands in this process, workers in their own."""

from pathlib import Path

import pytest

from penstock.embedded import EmbeddedServer
from tests.support import seeds
from tests.support.desks import desk, free_port, penstock

__all__ = ["desk", "free_port", "penstock"]


@pytest.fixture
def made_home(home: Path) -> Path:
    """A home with a cluster as the first start leaves it, for tests of what comes after that."""
    seeds.sow(EmbeddedServer(home), "empty", lambda _: None)
    return home
