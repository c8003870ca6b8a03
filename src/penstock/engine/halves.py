"""Writing a set that the database may refuse: in halves, until those are found that it refuses alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock.store import connect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


T = TypeVar("T")
R = TypeVar("R")


async def in_halves(
    items: Sequence[T], write: Callable[[Sequence[T]], Awaitable[list[R]]]
) -> tuple[list[R], list[tuple[T, Exception]]]:
    """Write *items* in one set; returns what the writes returned, and the items refused with their errors.

    A trigger of the application may raise for one job (C-62), or somebody's
    transaction may hold its row. The others of its set must not wait for it.
    """
    try:
        return await write(items), []
    except Exception as error:
        if isinstance(error, connect.AWAY) and not isinstance(error, connect.OBSTRUCTED):
            raise  # nobody was asked, so nobody refused
        if len(items) == 1:
            return [], [(items[0], error)]
    half = len(items) // 2
    told, refused = await in_halves(items[:half], write)
    more_told, more_refused = await in_halves(items[half:], write)
    return told + more_told, refused + more_refused
