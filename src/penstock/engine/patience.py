"""Writing what must be written: through an absence of the database, and through a cancellation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.store import connect
from penstock.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

T = TypeVar("T")
PAUSES: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
LAST_WORD: Final = 10.0  # seconds that a write may still take after its handler was told to stop


def _never(_: int) -> bool:
    return False


async def persist(
    what: str, write: Callable[[], Awaitable[T]], enough: Callable[[int], bool] = _never, *, divisible: bool = False
) -> T:
    """Try until the database has answered, or so many tries are *enough*, which raises what the last one did.

    *write* must bear to be tried twice, as fenced writes do. One that is
    *divisible* is not tried again whole while somebody stands in its way.
    """
    tries = 0
    while True:
        try:
            return await write()
        except connect.AWAY as error:
            pause = PAUSES[min(tries, len(PAUSES) - 1)]
            tries += 1
            if enough(tries) or (divisible and isinstance(error, connect.OBSTRUCTED)):
                raise
            events.database_away(what, type(error).__name__, pause)
            await asyncio.sleep(pause)


async def uninterrupted(work: Coroutine[object, object, T], seconds: float = LAST_WORD) -> T:
    """Let *work* end although the handler is cancelled, and pass the cancellation on afterwards.

    A cancelled COMMIT is worse than either outcome (rule 7 of the fault list),
    and an effect that happened must be marked. After *seconds* the work is left
    to itself.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task}, timeout=seconds)
        task.add_done_callback(_forget)
        raise


def _forget(task: asyncio.Task[T]) -> None:
    """Nobody asks for its error any more."""
    if not task.cancelled():
        task.exception()
