"""The bench of workers, and a proxy in front of its database."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from typing import Self

import pytest

from tests.engine.worker.conftest import Floor, floor
from tests.support.desks import desk
from tests.support.proxy import Proxy

__all__ = ["Floor", "desk", "floor", "proxy", "tcp_proxy", "wrong_clock"]


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    with Proxy(dsn) as running:
        yield running


@pytest.fixture
def tcp_proxy(dsn: str) -> Iterator[Proxy]:
    with Proxy(dsn, tcp=True) as running:
        yield running


@pytest.fixture
def wrong_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[timedelta], None]:
    """Shift every clock of this process that tells a date; the monotonic one tells none."""

    def shift(by: timedelta) -> None:
        class Wrong(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Self:
                return cls.fromtimestamp(time.time(), tz)

        seconds, real, real_ns = by.total_seconds(), time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: real() + seconds)
        monkeypatch.setattr(time, "time_ns", lambda: real_ns() + int(seconds * 1e9))
        for name, module in list(sys.modules.items()):
            if name.startswith("penstock") and getattr(module, "datetime", None) is datetime:
                monkeypatch.setattr(module, "datetime", Wrong)

    return shift
