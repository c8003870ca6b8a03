"""One connection to whichever server of a DSN is the right one.

The driver tries the servers of a DSN one after the other, with one timeout for
all: a machine that is switched off and answers nothing would use it up, and
the one that has taken over would never be asked. So the next server is asked
as soon as the one before it has refused, or has kept silent for a moment.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from penstock.contract import dsns

if TYPE_CHECKING:
    Connection = asyncpg.Connection[Any]

SILENCE: Final = 1.0  # seconds without an answer after which the next server is asked as well
# What says that a server is not the right one at the moment; anything else, such as a refused login, is said at once.
ELSEWHERE: Final = (
    OSError,
    asyncpg.TargetServerAttributeNotMatched,
    asyncpg.CannotConnectNowError,
    asyncpg.PostgresConnectionError,
)


async def opened(dsn: str, *, timeout: float, **options: Any) -> Connection:  # noqa: ASYNC109 - the driver's
    """Connect to the first server of *dsn* that answers and is what `target_session_attrs` asks for."""
    servers = dsns.servers(dsn) if dsns.is_postgres_url(dsn) else []
    if len(servers) < 2 or dsns.option(dsn, "target_session_attrs") == "prefer-standby":  # noqa: PLR2004 - one is no choice
        connection: Connection = await asyncpg.connect(dsn, timeout=timeout, **options)
        return connection
    async with asyncio.timeout(timeout):
        return await _first(dsn, servers, timeout, options)


async def _first(dsn: str, servers: list[tuple[str, int]], seconds: float, options: dict[str, Any]) -> Connection:
    asked: set[asyncio.Task[Connection]] = set()
    refusals: list[BaseException] = []
    waiting = list(servers)
    try:
        while waiting or asked:
            if waiting:
                host, port = waiting.pop(0)
                asking = asyncpg.connect(dsn, host=host, port=port, timeout=seconds, **options)
                asked.add(asyncio.ensure_future(asking))
            done, _ = await asyncio.wait(
                asked, timeout=SILENCE if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                asked.discard(task)
                error = task.exception()
                if error is None:
                    return task.result()
                if not isinstance(error, ELSEWHERE):
                    raise error
                refusals.append(error)
    finally:
        for task in asked:
            task.cancel()
            task.add_done_callback(_drop)
    raise _most_telling(refusals)


def _most_telling(refusals: list[BaseException]) -> BaseException:
    """A server that answered and takes no writes says more than one that is not there."""
    answered = (e for e in refusals if isinstance(e, asyncpg.TargetServerAttributeNotMatched))
    return next(answered, refusals[-1])


def _drop(task: asyncio.Task[Connection]) -> None:
    """One that answered too late is not needed."""
    if not task.cancelled() and task.exception() is None:
        task.result().terminate()
