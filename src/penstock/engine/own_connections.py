"""Connections that an application opens for itself, beside the engine's.

They belong to the event loop they were opened in, so each loop that asks has
its own, opened when first needed and given back when the application closes.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakKeyDictionary

from penstock.store import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from penstock.engine.app import Penstock
    from penstock.store.connect import Pool, Pooled

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One of something for each event loop."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    @property
    def here(self) -> T:
        """That of the loop that asks."""
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made[loop] = self._make()
        return self._made[loop]

    def forget(self) -> T | None:
        """Take that of this loop away, if it has one."""
        return self._made.pop(asyncio.get_running_loop(), None)


class OwnPool:
    """A pool of *size* connections to where *app* is, in one event loop."""

    def __init__(self, app: Penstock, *, size: int, name: str) -> None:
        self._app = app
        self._size = size
        self._name = name
        self._opening = asyncio.Lock()
        self._pool: Pool | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Pooled]:
        """One connection, in no transaction."""
        async with (await self._opened()).acquire() as connection:
            yield connection

    async def close(self) -> None:
        """Give all of them back."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _opened(self) -> Pool:
        async with self._opening:
            if self._pool is None:
                prepared = self._app.settings.prepared_statements
                dsn = await self._app.dsn()
                self._pool = await connect.create_pool(dsn, size=self._size, name=self._name, prepared=prepared)
            return self._pool
