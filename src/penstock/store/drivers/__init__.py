"""Connections that callers pass in: one small adapter per driver, all running the same statements.

An adapter answers three questions: how a statement is run, how a savepoint is
set, and whether anybody can see the caller's commit. A driver that is an extra
is never imported here: whoever passes its connection has imported it already.
"""

from __future__ import annotations

import sys
from typing import Any

from penstock.contract.errors import EnqueueRefused
from penstock.store.drivers import native
from penstock.store.drivers.kinds import AsyncCaller, Caller, Commits, Voice

__all__ = ["AsyncCaller", "Caller", "Commits", "Voice", "recognise", "recognise_async"]


def recognise_async(connection: Any) -> AsyncCaller:
    """The adapter for what an async caller passed as `connection`."""
    if native.is_connection(connection):
        return native.Native(connection)
    if "psycopg" in sys.modules:
        from penstock.store.drivers import psycopg3  # an extra

        if psycopg3.is_async_connection(connection):
            return psycopg3.AsyncPsycopg(connection)
    if "sqlalchemy" in sys.modules:
        from penstock.store.drivers import alchemy  # an extra

        found = alchemy.recognise_async(connection)
        if found is not None:
            return found
    raise EnqueueRefused(
        f"connection is a {_type(connection)}; `enqueue` takes a connection of asyncpg, an AsyncConnection of psycopg, "
        "or an AsyncSession or AsyncConnection of SQLAlchemy (their sync twins go to `enqueue_sync`)"
    )


def recognise(connection: Any) -> Caller:
    """The adapter for what a sync caller passed as `connection`."""
    if "psycopg" in sys.modules:
        from penstock.store.drivers import psycopg3  # an extra

        if psycopg3.is_connection(connection):
            return psycopg3.Psycopg(connection)
    if "sqlalchemy" in sys.modules:
        from penstock.store.drivers import alchemy  # an extra

        found = alchemy.recognise(connection)
        if found is not None:
            return found
    raise EnqueueRefused(
        f"connection is a {_type(connection)}; `enqueue_sync` takes a Connection of psycopg 3, or a Session or "
        "Connection of SQLAlchemy (their async twins go to `enqueue`)"
    )


def _type(value: object) -> str:
    return f"{type(value).__module__.partition('.')[0]} {type(value).__name__}"
