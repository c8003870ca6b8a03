"""A real process that dies at a named point, forked from the test so that it knows the test's own handlers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from penstock.contract import crash

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from penstock.contract.crash import CrashPoint


async def die_at(point: CrashPoint, passages: int, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run *work* in a forked process that is killed at *point*; returns when it is dead.

    The child has a copy of everything the test knows, and what its handlers
    change in memory stays with it; look at the database or at files afterwards.
    A child that never comes to *point* fails the test.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        _live_and_die(point, passages, work)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
        raise AssertionError(f"the worker ended without coming to {point} ({passages} times)")


def _live_and_die(point: CrashPoint, passages: int, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """The child's whole life; it never returns, so that nothing of the parent is torn down twice."""
    try:
        crash.arm(point, passages)
        asyncio.run(work())
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        os._exit(1)
    os._exit(0)
