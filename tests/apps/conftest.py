"""What the tests of all applications share."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

import pytest

from penstock.telemetry import logs


@pytest.fixture
def log() -> Iterator[StringIO]:
    """Every line that is logged, down to the last detail."""
    stream = StringIO()
    logs.configure("debug", "json", stream=stream)
    yield stream
    logs.reset()
