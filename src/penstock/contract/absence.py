"""The one list of what it looks like when the database is away (C-50).

Away is: the connection is lost, the server shuts down, starts, recovers, takes
no writes at the moment, has no room, or stops a statement for the sake of
another. To try again is right, and no code of the application is at fault. The
store builds from this list what workers, heartbeats, listeners and producers
wait out (`store.connect.AWAY`); `classify` reads it for the errors of handlers.

Drivers are named here and not imported, so that none has to be installed. One phrase is
enough to know a lost connection by; the text around it is never kept.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from penstock.contract.failures import FailureClass as F

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

# SQLSTATE, whole or its class of two characters; a whole one goes before its class.
STATES: Final[Mapping[str, F]] = MappingProxyType({
    "08": F.NETWORK_RESET,  # connection exceptions
    "25006": F.NETWORK_RESET,  # read-only: a standby, or a server that takes no writes for a while
    "25P03": F.NETWORK_RESET,  # the server has ended a session that was idle in a transaction …
    "25P04": F.NETWORK_TIMEOUT,  # … or whose transaction took too long
    "40": F.CONFLICT,  # serialization, deadlock
    "53": F.UPSTREAM_5XX,  # out of disk, memory, connections
    "55P03": F.CONFLICT,  # a lock is not to be had
    "57": F.NETWORK_RESET,  # shutdown, crash, cannot connect now, database dropped, idle session
    "57014": F.NETWORK_TIMEOUT,  # the statement was cancelled, by its timeout or by a person
    "58": F.UPSTREAM_5XX,  # the server's own files and system calls
})  # fmt: skip

# Classes without an SQLSTATE, by the package that raises them.
NAMES: Final[Mapping[str, Mapping[str, F]]] = MappingProxyType({
    "asyncpg": {"InternalClientError": F.NETWORK_RESET},  # the driver has lost track of a connection that was cut
    "psycopg": {"OperationalError": F.NETWORK_RESET},
    "psycopg2": {"OperationalError": F.NETWORK_RESET},
    "psycopg_pool": {
        "PoolTimeout": F.NETWORK_TIMEOUT, "TooManyRequests": F.NETWORK_TIMEOUT, "PoolClosed": F.NETWORK_RESET,
    },
    "sqlalchemy": {"TimeoutError": F.NETWORK_TIMEOUT, "DisconnectionError": F.NETWORK_RESET},
})  # fmt: skip

# Classes that drivers raise for lost connections and for wrong use alike.
EITHER: Final[Mapping[str, frozenset[str]]] = MappingProxyType({
    "asyncpg": frozenset({"InterfaceError"}),
    "psycopg": frozenset({"InterfaceError"}),
    "psycopg2": frozenset({"InterfaceError"}),
    "sqlalchemy": frozenset({"InvalidRequestError"}),
})  # fmt: skip
PHRASES: Final = (
    "connection is closed",
    "connection was closed",
    "connection already closed",
    "connection has been released back to the pool",  # what asyncpg says once it has dropped a lost connection
    "pool is closed",
    "pool is closing",
    "can't reconnect until invalid",
)

_CONNECTING: Final = frozenset({
    ("asyncio.base_events", "create_connection"),
    ("asyncio.unix_events", "create_unix_connection"),
})  # fmt: skip
_DRIVERS: Final = frozenset({"asyncpg", "psycopg", "psycopg2"})
_DEEPEST: Final = 50  # links, frames
_READ: Final = 500  # characters of a message


def of_state(state: str) -> F | None:
    """The failure class of an SQLSTATE that means away; None for one that does not."""
    return STATES.get(state) or STATES.get(state[:2])


def is_lost_connection(error: BaseException) -> bool:
    """Whether *error*, of a class that can mean either, says that its connection is gone."""
    return _is_either(type(error)) and any(phrase in _words(error) for phrase in PHRASES)


def may_follow_from_one(error: BaseException) -> bool:
    """Whether *error* is what a driver says about a connection when the real error came before it."""
    return _is_either(type(error))


def failed_to_connect(error: OSError) -> bool:
    """Whether *error* was raised on the way to a server: there even a missing file is a socket that is not there."""
    frame: TracebackType | None = error.__traceback__
    for _ in range(_DEEPEST):
        if frame is None:
            break
        module = str(frame.tb_frame.f_globals.get("__name__", ""))
        if package(module) in _DRIVERS or (module, frame.tb_frame.f_code.co_name) in _CONNECTING:
            return True
        frame = frame.tb_next
    return False


def package(module: str) -> str:
    """The top package of *module*."""
    return module.partition(".")[0]


def _is_either(cls: type) -> bool:
    return any(base.__name__ in EITHER.get(package(str(base.__module__)), ()) for base in cls.__mro__)


def _words(error: BaseException) -> str:
    first = error.args[0] if error.args else ""
    return first[:_READ].lower() if isinstance(first, str) else ""
