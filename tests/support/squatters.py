"""A login that holds advisory locks which others need: any login may take any, when it knows the number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import asyncpg

from tests.engine.looking import until

PATIENCE: Final = 10.0  # seconds; far longer than work takes that waits for nobody
HELD_UP: Final = """
exists (select from pg_locks l join pg_database d on d.oid = l.database
         where d.datname = current_database() and l.locktype = 'advisory' and not l.granted)
"""
Result = TypeVar("Result")


@dataclass
class Squatter:
    """One session; what it takes it holds until it leaves."""

    session: asyncpg.Connection[Any]
    owner: asyncpg.Connection[Any]

    async def take(self, number: str, *arguments: object) -> None:
        """Hold the lock that *number*, an expression, gives for *arguments*."""
        async with asyncio.timeout(PATIENCE):
            await self.session.execute(f"select pg_advisory_lock({number})", *arguments)

    async def take_as_known(self, number: str, *arguments: object) -> None:
        """The same, with a number that only the owner can work out."""
        await self.take("$1::bigint", await self.owner.fetchval(f"select {number}", *arguments))

    async def leave(self) -> None:
        """Give everything back."""
        await self.session.execute("select pg_advisory_unlock_all()")

    async def hinders(self, work: Awaitable[Result]) -> Result:
        """Let *work* begin, see that it waits for a lock, leave, and return what it came to."""
        begun = asyncio.ensure_future(work)
        await until(self.owner, HELD_UP, seconds=PATIENCE)
        assert not begun.done()
        await self.leave()
        return await begun


async def unhindered(work: Awaitable[Result]) -> Result:
    """What *work* comes to; it must not wait for anybody."""
    async with asyncio.timeout(PATIENCE):
        return await work


@asynccontextmanager
async def squatter(dsn: str, owner: asyncpg.Connection[Any]) -> AsyncIterator[Squatter]:
    """A session of the login in *dsn*."""
    session = await asyncpg.connect(dsn)
    try:
        yield Squatter(session, owner)
    finally:
        session.terminate()  # at once, also while it waits for a lock itself
