"""An application on a fresh database; the tests declare its types and run them inline."""

from collections.abc import AsyncIterator

import pytest

from penstock import Penstock


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[Penstock]:
    made = Penstock(dsn, grace_seconds=5)
    yield made
    await made.close()
