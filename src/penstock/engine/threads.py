"""Handlers that are plain functions, each in a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from penstock.contract.errors import SettingsInvalid
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.contract.claims import Claim


class Threads:
    """As many threads as the worker runs handlers, started when the first one is needed."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool: ThreadPoolExecutor | None = None
        self.abandoned = 0  # they did not stop when told; the process must recycle (C-63)

    async def run(self, claim: Claim, call: Callable[..., Any], arguments: list[Any]) -> Any:
        """Call in a thread and wait. A thread cannot be cancelled: it is left behind, and the fence keeps it out."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._count, thread_name_prefix="penstock-handler")
        context = contextvars.copy_context()
        future = asyncio.get_running_loop().run_in_executor(self._pool, context.run, _outcome, call, arguments)
        try:
            result, error = await future
        except asyncio.CancelledError:
            if not future.done() or future.cancelled():
                self.abandoned += 1
                events.handler_abandoned(claim)
            raise
        if error is not None:
            raise error
        if inspect.iscoroutine(result):
            result.close()
            raise SettingsInvalid("the handler is a plain function that returned a coroutine; declare it `async def`")
        return result

    def close(self) -> None:
        """Let go; what hangs is left behind."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _outcome(call: Callable[..., Any], arguments: list[Any]) -> tuple[Any, BaseException | None]:
    """As a value, because a future cannot carry every exception (StopIteration would be lost with its job)."""
    try:
        return call(*arguments), None
    except BaseException as error:
        return None, error
