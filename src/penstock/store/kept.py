"""One connection of a watched pool, kept by whoever uses it most.

Taking a connection from the pool and giving it back takes several turns of the
event loop, which a job that waits for its claim would wait for as well. The
connection is watched while a statement runs, as any other of its pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.store.silence import bare, usable

if TYPE_CHECKING:
    import asyncpg


class Kept:
    """Runs one statement at a time, always on the same connection until it is lost."""

    def __init__(self, pool: asyncpg.Pool[Any], *, answer_within: float) -> None:
        self._pool = pool
        self._answer_within = answer_within
        self._connection: Any = None

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run *query*; a connection that it may have spoiled goes back to the pool, which knows what to do with it."""
        if self._connection is None or not usable(self._connection):
            await self._take()
        connection = bare(self._connection)
        connection.leave(self._answer_within)
        try:
            rows: list[asyncpg.Record] = await connection.fetch(query, *arguments)
        except BaseException:
            await self.give_back()
            raise
        connection.come_back()  # also one that was lost behind its answer
        return rows

    async def give_back(self) -> None:
        """Let go of it; the next statement takes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._pool.release(connection)

    async def _take(self) -> None:
        await self.give_back()
        self._connection = await self._pool.acquire()
        if usable(self._connection):
            bare(self._connection).come_back()  # its time counts by the statement
