"""Time limits of running handlers, and the patience with those that were told to stop, with one timer for all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.engine.running import Running, Stop
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

UNHEARD: Final = 15.0  # seconds after which a handler that was told to stop is left behind; a commit may take ten


class Deadlines:
    """Halts what has run past its limit, and gives up on what goes on all the same (C-63).

    Starting a timer for each of thousands of jobs a second would cost more than
    the jobs. So one timer stands at the earliest limit; when it rings, all
    running handlers are looked at.
    """

    def __init__(self, running: Iterable[Running], abandon: Callable[[Running], None]) -> None:
        self._running = running
        self._abandon = abandon
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, deadline: float) -> None:
        """See to it that the timer rings no later than *deadline*."""
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(deadline, self._ring)

    def watch_halted(self) -> None:
        """See to it that handlers which are told to stop now are looked at again."""
        self.watch(asyncio.get_running_loop().time() + UNHEARD)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        ahead = []
        for running in list(self._running):
            if running.task is None:
                continue
            limit = running.deadline if running.halted is None else running.halted + UNHEARD
            if limit is None:
                continue
            if limit > now:
                ahead.append(limit)
            else:
                ahead.append(now + UNHEARD)
                self._stop(running)
        if ahead:
            self.watch(min(ahead))

    def _stop(self, running: Running) -> None:
        """Halt it, or give up on it; what goes wrong with one handler must not end the watch over all others."""
        try:
            if running.halted is None:
                running.halt(Stop.TIMEOUT)
            else:
                self._abandon(running)
        except Exception as error:
            events.internal_error("deadlines", type(error).__name__)  # it is looked at again
