"""The emulator's clock: real time, plus what a test has wound it forward by."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """Seconds since 1970. A frozen clock moves only by `advance`."""

    def __init__(self, *, frozen: bool = False) -> None:
        self._start = time.time() if frozen else None
        self._shift = 0.0

    def now(self) -> float:
        """What time the emulator believes it is."""
        return (time.time() if self._start is None else self._start) + self._shift

    def advance(self, seconds: float) -> None:
        """Wind the clock forward; it never goes back."""
        if seconds < 0:
            raise ValueError(f"cannot advance by {seconds} seconds; give a number of 0 or more")
        self._shift += seconds


def iso(seconds: float) -> str:
    """*seconds* since 1970 as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
