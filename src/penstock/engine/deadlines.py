"""Time limits of running handlers, with one timer for all of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.engine.running import Running, Stop

if TYPE_CHECKING:
    from collections.abc import Iterable


class Deadlines:
    """Halts what has run past its limit (C-63).

    Starting a timer for each of thousands of jobs a second would cost more than
    the jobs. So one timer stands at the earliest limit; when it rings, all
    running handlers are looked at.
    """

    def __init__(self, running: Iterable[Running]) -> None:
        self._running = running
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, deadline: float) -> None:
        """See to it that the timer rings no later than *deadline*."""
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(deadline, self._ring)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        ahead = []
        for running in list(self._running):
            if running.deadline is None or running.task is None or running.stop is not None:
                continue
            if running.deadline <= now:
                running.halt(Stop.TIMEOUT)
            else:
                ahead.append(running.deadline)
        if ahead:
            self.watch(min(ahead))
