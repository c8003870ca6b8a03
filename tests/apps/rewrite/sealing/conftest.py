"""An estate of homes for every test."""

from collections.abc import AsyncIterator, Callable

import pytest

from tests.apps.rewrite.estate import Estate, open_estate


@pytest.fixture
async def estate(dsn: str, role_dsn: Callable[[str], str]) -> AsyncIterator[Estate]:
    """Homes and requests on a fresh database."""
    async with open_estate(dsn, role_dsn) as made:
        yield made
