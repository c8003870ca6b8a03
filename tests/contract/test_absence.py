"""One list says when a database is away: for the engine's own statements and for the failures of handlers."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import exc as sqlalchemy_errors
from sqlalchemy.dialects.postgresql.asyncpg import AsyncAdapt_asyncpg_dbapi

from penstock.contract import absence
from penstock.contract.classify import classify
from penstock.contract.errors import DatabaseUnavailable
from penstock.contract.failures import FailureClass as F
from penstock.store import connect
from tests.contract.errors_of_sdks import caused, shaped

LOST = "cannot perform operation: connection is closed"
DRIVER = [
    kind
    for kind in {**vars(asyncpg.exceptions._base), **vars(asyncpg.exceptions)}.values()
    if inspect.isclass(kind) and issubclass(kind, Exception) and not issubclass(kind, Warning)
]


def after(error: Exception, before: Exception) -> Exception:
    """*error*, raised while *before* was being handled."""
    try:
        try:
            raise before
        except type(before):
            raise error  # noqa: B904 - the context is what this is about
    except type(error) as raised:
        return raised


@pytest.mark.contract("C-50", "E-02")
@pytest.mark.parametrize("kind", DRIVER, ids=lambda kind: kind.__name__)
def test_what_the_engine_waits_out_is_what_a_handler_may_retry(kind: type[Exception]) -> None:
    failure = classify(kind(LOST), idempotent=True)
    if issubclass(kind, connect.AWAY):
        assert (failure.retryable, failure.recognised) == (True, True)
    state = getattr(kind, "sqlstate", None)
    if state is not None:
        assert issubclass(kind, connect.AWAY) is (absence.of_state(state) is not None)


@pytest.mark.contract("C-50")
def test_there_are_classes_of_the_driver_to_look_at() -> None:
    assert len(DRIVER) > 200
    assert all(isinstance(kind("x"), connect.AWAY) for kind in (asyncpg.InterfaceError, asyncpg.InternalClientError))


@pytest.mark.contract("C-50")
@pytest.mark.parametrize("state", [*absence.STATES, "57P01", "57P02", "57P03", "57P04", "57P05", "08006", "53300"])
def test_every_state_of_the_list_is_an_error_that_the_engine_waits_out(state: str) -> None:
    whole = state if len(state) == 5 else f"{state}000"
    kind = type(asyncpg.PostgresError).get_message_class_for_sqlstate(whole)  # type: ignore[attr-defined]
    assert issubclass(kind, connect.AWAY)
    assert classify(kind("text of a user"), idempotent=True).error_class is absence.of_state(whole)


@pytest.mark.contract("C-50", "E-02")
@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InterfaceError(LOST),
        asyncpg.InterfaceError("cannot call Connection.fetch(): connection has been released back to the pool"),
        asyncpg.InterfaceError("pool is closing"),
        asyncpg.InternalClientError("got result for unknown protocol state 3"),
        asyncpg.TargetServerAttributeNotMatched("None of the hosts match"),
        asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction"),
        asyncpg.DatabaseDroppedError("x"),
        after(
            asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
            asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        ),
        after(asyncpg.InterfaceError("cannot rollback; the transaction is in error state"), ConnectionResetError()),
        psycopg.OperationalError("the connection is closed"),
        psycopg.errors.ReadOnlySqlTransaction("x"),
        psycopg.errors.AdminShutdown("x"),
        shaped("psycopg_pool", "PoolClosed"),
        shaped("psycopg_pool", "PoolTimeout"),
        sqlalchemy_errors.PendingRollbackError("Can't reconnect until invalid transaction is rolled back."),
        sqlalchemy_errors.ResourceClosedError("This Connection is closed"),
        caused(
            sqlalchemy_errors.InterfaceError("select", {}, Exception()),
            caused(AsyncAdapt_asyncpg_dbapi.InterfaceError("x"), asyncpg.InterfaceError(LOST)),  # type: ignore[no-untyped-call]
        ),
        caused(
            sqlalchemy_errors.DBAPIError("select", {}, Exception()),
            asyncpg.ReadOnlySQLTransactionError("x"),
        ),
        caused(sqlalchemy_errors.OperationalError("select", {}, Exception()), psycopg.OperationalError("gone")),
        DatabaseUnavailable("away"),
        EOFError(),
    ],
    ids=lambda error: f"{type(error).__module__.partition('.')[0]} {type(error).__name__}",
)
def test_a_handler_whose_database_went_away_is_retried(error: Exception) -> None:
    failure = classify(error, unknown_retryable=False)
    assert failure.error_class in {F.NETWORK_RESET, F.NETWORK_TIMEOUT}
    assert failure.retryable


@pytest.mark.contract("C-50", "E-11")
@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InterfaceError("the server expects 1 argument for this query, 2 were passed"),
        asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
        after(asyncpg.InterfaceError("cannot start; the transaction is already started"), KeyError("x")),
        after(KeyError("x"), asyncpg.ConnectionDoesNotExistError("x")),
        FileNotFoundError(2, "No such file or directory"),
        psycopg.InterfaceError("the cursor is closed"),
        sqlalchemy_errors.InvalidRequestError("This Session's transaction has been rolled back"),
    ],
    ids=str,
)
def test_a_bug_of_a_handler_is_still_a_bug(error: Exception) -> None:
    assert classify(error).error_class is F.RUNTIME_BUG


@pytest.mark.contract("C-50", "E-02")
@pytest.mark.parametrize("where", ["a socket that is not there", "two addresses that refuse"])
async def test_a_server_that_cannot_be_reached_is_no_bug_of_the_handler(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is that of any missing file, or has no number at all; where it was raised says more."""

    async def twice(*_: Any, **__: Any) -> Any:
        raise OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1), [Errno 111] ('127.0.0.1', 1)")

    dsn = "postgresql://u@127.0.0.1:1/db"
    with tempfile.TemporaryDirectory() as folder:
        if where.startswith("a socket"):
            dsn = f"postgresql://u@/db?host={Path(folder)}"
        else:
            monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", twice)
        with pytest.raises(OSError, match=r"No such file|Multiple") as raised:
            await asyncpg.connect(dsn)
    assert classify(raised.value).error_class is F.NETWORK_RESET
    assert isinstance(raised.value, connect.AWAY)
