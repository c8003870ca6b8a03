"""Connections that fall silent: no data and no error, for ever, unless somebody looks at a clock.

Two things bound that. The kernel gives up a TCP connection whose other end no
longer acknowledges. A proxy or a hung server acknowledges and never answers,
so a connection of a watched pool that is out for too long is cut as well.
Whoever waits gets the error of a lost connection, whose outcome is unknown and
treated so everywhere. Nothing is cancelled: a cancelled COMMIT may report
success for what is lost (a statement outside a transaction is its own COMMIT).
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from penstock.contract.errors import CommitInDoubt, NothingCommitted
from penstock.store.array_types import Informed

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

ANSWER_WITHIN: Final = 60.0  # seconds; no statement of a worker takes that long on a server that is well
READ_ONLY: Final = ("in_hot_standby", "default_transaction_read_only")
NOTICE: Final = "10s"  # how often the server looks whether the client of a long statement is still there
# An idle peer that is gone is noticed after 25 seconds, one that acknowledges nothing as well.
TCP_OPTIONS: Final = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 25_000}


class Wary(Informed):
    """A connection that knows when a COMMIT was none, and remembers one which was told not to wait for its replica.

    The server answers the latter with success and a warning, and after a
    failover it may be gone. The routine that warns is named in every language.
    """

    doubtful = False

    async def execute(self, query: str, *arguments: Any, timeout: float | None = None) -> str:  # noqa: ASYNC109 - the driver's
        """Run *query*; the driver's own COMMIT of a transaction that had failed raises `NothingCommitted`.

        The server rolls such a transaction back and calls that by its name,
        but the driver does not look.
        """
        status: str = await super().execute(query, *arguments, timeout=timeout)
        if status == "ROLLBACK" and query == "COMMIT;":
            raise NothingCommitted
        return status

    def _process_log_message(self, fields: Any, last_query: Any) -> None:  # the driver's, for each notice
        if fields.get("R") == "SyncRepWaitForLSN":
            self.doubtful = True
        super()._process_log_message(fields, last_query)  # type: ignore[misc]  # private, so not in its types

    def take_doubt(self) -> bool:
        """Whether there was such a COMMIT since the last time."""
        doubtful, self.doubtful = self.doubtful, False
        return doubtful


def bare(connection: Any) -> Any:
    """The connection inside the wrapping that a pool lends it in; itself, if it has none.

    A pool empties the wrapping as soon as the connection is lost, and it
    answers nothing then: take what is to be asked later out of it before.
    """
    return getattr(connection, "_con", None) or connection


def usable(connection: Any) -> bool:
    """Whether *connection* of a pool can still be used: neither closed nor emptied."""
    inner = connection._con  # noqa: SLF001 - the driver's wrapping answers no question once it is empty
    return inner is not None and not inner.is_closed()


def refuse_doubt(connection: Any) -> None:
    """Raise `CommitInDoubt` if the COMMIT that *connection*, the bare one of a pool of ours, has just made is one."""
    if connection.take_doubt():
        raise CommitInDoubt


class Watched(Wary):
    """A connection that is cut when it stays out of its pool for too long."""

    cutting: asyncio.TimerHandle | None = None

    def leave(self, seconds: float) -> None:
        """It goes out: from now on the time counts."""
        self.cutting = asyncio.get_running_loop().call_later(seconds, self.terminate)

    def come_back(self) -> None:
        """It is back in time."""
        if self.cutting is not None:
            self.cutting.cancel()


def watching(seconds: float) -> dict[str, Any]:
    """What makes a pool a watched one."""

    async def lend(connection: Any) -> None:
        connection.leave(seconds)

    async def take_back(connection: Any) -> None:
        connection.come_back()
        await leave_read_only(connection)

    return {"connection_class": Watched, "setup": lend, "reset": take_back}


async def leave_read_only(connection: Any) -> None:
    """End a connection to a standby, or to a server that is set to take no writes; each says so by itself.

    The address may lead to another server by now, and a DSN may name several:
    with this connection kept, the one that writes would never be found.
    """
    settings = connection.get_settings()
    if "on" in (getattr(settings, name, None) for name in READ_ONLY):
        connection.terminate()


async def reset(connection: Any) -> None:
    """Undo all that a handler may have left in the session."""
    await connection.reset()
    await leave_read_only(connection)


def keep_alive(connection: Connection) -> None:
    """Have the kernel give up this connection when its other end is gone; a Unix socket has no such end."""
    transport = connection._transport  # type: ignore[attr-defined]  # noqa: SLF001 - the driver tells it to nobody
    end = transport.get_extra_info("socket")
    if end is None or end.family not in (socket.AF_INET, socket.AF_INET6):
        return
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in TCP_OPTIONS.items():
        if (option := getattr(socket, name, None)) is not None:  # not every system has all of them
            end.setsockopt(socket.IPPROTO_TCP, option, value)


async def end_with_client(connection: Connection) -> None:
    """Have the server end a statement whose client is gone, so that tries which were cut off do not pile up there.

    A COMMIT that waits for a replica is not ended by that. Some systems cannot
    look; there the statement goes on until it writes.
    """
    with suppress(asyncpg.DataError, asyncpg.InsufficientPrivilegeError):
        await connection.execute(f"set client_connection_check_interval = '{NOTICE}'")
