"""An application on a fresh database; the tests declare its types and run them inline."""

from collections.abc import AsyncIterator

import pytest

from penstock import Penstock
from tests.support import clusters


@pytest.fixture
def template() -> str:
    """The engine alone: some tests run made-up jobs under the name of an application's type."""
    return clusters.BARE_TEMPLATE


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[Penstock]:
    made = Penstock(dsn, grace_seconds=5)
    yield made
    await made.close()
