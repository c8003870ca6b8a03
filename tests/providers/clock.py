"""The moment at which these tests take place."""

from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
STAMP = round(NOW.timestamp())
LATER = NOW + timedelta(hours=1)  # until when a batch of NOW may have been created
