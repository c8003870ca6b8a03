"""After the take-over: a fresh database has an empty outbox behind the view."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apps.vault.takeover.claims import Poller
from tests.apps.vault.takeover.outbox import Outbox
from tests.support import clusters


@pytest.fixture
def template() -> str:
    """The newest schema."""
    return clusters.TEMPLATE


@pytest.fixture
def poller(outbox: Outbox) -> Iterator[Poller]:
    """A session of a poller of before."""
    with outbox.legacy() as connection:
        yield connection
