"""Connections to the server: pools for work, single ones for the listener and the heartbeat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from penstock.contract import absence
from penstock.contract.dsns import is_postgres_url
from penstock.contract.errors import DatabaseUnavailable
from penstock.store import hosts, silence
from penstock.store.array_types import Informed

if TYPE_CHECKING:
    # The driver stays in the store; the other layers name its objects by these.
    Connection = asyncpg.Connection[Any]
    Pool = asyncpg.Pool[Any]
    Pooled = asyncpg.pool.PoolConnectionProxy[Any]
    Record = asyncpg.Record

CONNECT_TIMEOUT: Final = 10.0
# What every session of ours begins with: only parameters that a pooler passes on, as it refuses a session for others.
SESSION: Final = {"application_name": "penstock", "timezone": "UTC"}


def _answers() -> tuple[type[Exception], ...]:
    """The driver's classes for the SQLSTATEs of `contract.absence`, without those that are a kind of another one."""
    kinds = [
        kind
        for kind in vars(asyncpg.exceptions).values()
        if isinstance(kind, type)
        and issubclass(kind, asyncpg.PostgresError)
        and absence.of_state(kind.sqlstate or "") is not None  # the root of them has none
    ]
    return tuple(kind for kind in kinds if not any(kind is not other and issubclass(kind, other) for other in kinds))


# What a statement raises when the server is away, restarting, read-only, overloaded or cutting us off: try again,
# nothing is lost. Of our own statements none is in wrong use, so whatever the driver itself says is a loss too.
AWAY: Final[tuple[type[Exception], ...]] = (
    OSError,
    EOFError,
    DatabaseUnavailable,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    *_answers(),
)

# Of these, what a server says that is there: somebody's transaction stands in the way, or a trigger of the application
# says so. To try again is all that helps, but what is asked for may be divided, so that not everything waits.
OBSTRUCTED: Final[tuple[type[Exception], ...]] = (
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)


async def connect(dsn: str, *, name: str = "penstock", prepared: bool = True) -> asyncpg.Connection[Any]:
    """Open one connection; a server that is away raises `DatabaseUnavailable`. *prepared* is off behind a pooler."""
    try:
        connection = await hosts.opened(
            dsn,
            timeout=CONNECT_TIMEOUT,
            statement_cache_size=100 if prepared else 0,
            server_settings={**SESSION, "application_name": name},
            connection_class=Informed,
        )
    except Exception as error:
        raise unavailable(error, dsn) from None
    silence.keep_alive(connection)
    return connection


async def create_pool(
    dsn: str,
    *,
    size: int,
    name: str = "penstock",
    prepared: bool = True,
    reset: bool = False,
    writes: bool = False,
    answer_within: float | None = None,
) -> asyncpg.Pool[Any]:
    """Open a pool of up to *size* connections.

    Nothing in Penstock leaves session state behind, so a connection goes back
    without the driver's reset, which would cost one round trip for each use;
    *reset* is for connections that handlers get. *prepared* is off behind a
    transaction pooler. A pool that *writes* keeps no connection to a server
    that takes no writes: another one may have taken over. A connection that is
    out for longer than *answer_within* seconds is cut: for pools of single
    statements, all of which write.
    """
    options: dict[str, Any] = {"connection_class": silence.Wary}
    if reset:
        options["reset"] = silence.reset
    else:
        options["reset"] = silence.leave_read_only if writes else _leave_as_it_is
    if answer_within is not None:
        options = silence.watching(answer_within)
    options["connect"] = hosts.opened

    async def init(connection: silence.Connection) -> None:
        silence.keep_alive(connection)
        if answer_within is not None and prepared:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await silence.end_with_client(connection)

    try:
        pool = await asyncpg.create_pool(
            dsn,
            min_size=1,
            max_size=size,
            timeout=CONNECT_TIMEOUT,
            statement_cache_size=200 if prepared else 0,
            server_settings={**SESSION, "application_name": name},
            init=init,
            **options,
        )
    except Exception as error:
        raise unavailable(error, dsn) from None
    return pool


def unavailable(error: BaseException, dsn: str) -> DatabaseUnavailable:
    """Say what was tried and what to do, never the password."""
    where = masked(dsn)
    if isinstance(error, asyncpg.InvalidPasswordError | asyncpg.InvalidAuthorizationSpecificationError):
        return DatabaseUnavailable(f"{where} refuses the login; check the user and the password in its DSN")
    if isinstance(error, asyncpg.InvalidCatalogNameError):
        return DatabaseUnavailable(f"{where}: there is no such database; create it, then run `penstock migrate up`")
    if isinstance(error, ValueError) or not is_postgres_url(dsn):  # every error of the driver about a DSN is one
        return DatabaseUnavailable(
            f"{where} is not a usable DSN; write it as postgresql://user:password@host:5432/database"
        )
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return DatabaseUnavailable(
            f"{where}: of the servers that answer none is what target_session_attrs asks for; is the cluster in the "
            "middle of a failover? Try again, and look at which of them is the primary"
        )
    return DatabaseUnavailable(
        f"{where} does not answer ({type(error).__name__}); is it up? `penstock db status` shows the embedded server"
    )


def masked(dsn: str) -> str:
    """The DSN without its password; nothing of one that may hold it anywhere else than in its place."""
    parts = urlsplit(dsn) if is_postgres_url(dsn) else None
    if parts is None or "@" in parts.path:  # a raw / in the password moves the rest of it into the path
        return "the address given"
    shown = parts._replace(query="", fragment="")
    if parts.password is None:
        return urlunsplit(shown)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(shown._replace(netloc=f"{parts.username}:***@{host}"))


async def _leave_as_it_is(connection: asyncpg.Connection[Any]) -> None:
    """Nothing to reset."""
