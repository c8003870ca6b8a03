"""Reading and writing rows of reviews through an absence of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock.engine.patience import persist

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.apps.review.application import Reviews
    from penstock.store.connect import Pooled

    T = TypeVar("T")


async def stored(reviews: Reviews, work: Callable[[Pooled], Awaitable[T]]) -> T:
    """*work* on a connection of *reviews*, again when the database was away: what was paid for is not thrown away."""

    async def once() -> T:
        async with reviews.connection() as connection:
            return await work(connection)

    return await persist("review", once)
