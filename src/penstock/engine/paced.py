"""An act that many messages ask for and few of them cause.

NOTIFY needs no right, so whatever listens may be sent any number of messages.
Each of them only asks for a look; the first is answered at once, and all that
come within the next moment get one look together when it is over.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Paced:
    """Calls *act* when it is asked for, at most once in *seconds*."""

    def __init__(self, act: Callable[[], None], seconds: float) -> None:
        self._act = act
        self._seconds = seconds
        self._last = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def ask(self) -> None:
        """Act now, or as soon as the last time is long enough ago; never before what is asked for is noted."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._last + self._seconds - loop.time()
        if wait <= 0:
            self._now()
        else:
            self._timer = loop.call_later(wait, self._now)

    def close(self) -> None:
        """Act no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._last = asyncio.get_running_loop().time()
        self._act()
