"""The moment at which these tests take place."""

from datetime import UTC, datetime

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
STAMP = round(NOW.timestamp())
