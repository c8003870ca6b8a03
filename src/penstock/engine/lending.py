"""Connections lent to handlers: a pool of its own, so that handlers never starve the worker (fault 34)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.store import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.store.claims import Transaction
    from penstock.store.connect import Pool


class Lender:
    """Lends up to *size* connections; a handler that finds none free waits, and keeps its lease meanwhile.

    Opened by the first handler that asks: most never do. Connections come back
    reset, because a handler may leave anything in a session.
    """

    def __init__(self, dsn: str, *, size: int, prepared: bool = True) -> None:
        self._dsn = dsn
        self._size = size
        self._prepared = prepared
        self._opening = asyncio.Lock()
        self._pool: Pool | None = None

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Transaction]:
        """One connection, for as long as the block."""
        async with (await self._opened()).acquire() as connection:
            yield connection

    async def close(self, seconds: float = 5.0) -> None:
        """Disconnect; what a handler that was left behind still holds is cut off."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await pool.close()
        except connect.AWAY:
            pool.terminate()

    def cut(self) -> None:
        """Drop every connection at once, as a crash would."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()

    async def _opened(self) -> Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await connect.create_pool(
                    self._dsn, size=self._size, name="penstock handlers", prepared=self._prepared, reset=True
                )
            return self._pool
