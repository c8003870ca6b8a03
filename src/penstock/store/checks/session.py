"""The way to the server: poolers that stand in it, LISTEN, and the two clocks at its ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import asyncpg

from penstock.contract.errors import DatabaseUnavailable
from penstock.store import connect
from penstock.store.doctor import Finding, Patient, error, plain_connection, warning

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from penstock.store.doctor import Check

PATIENCE: Final = 3.0  # seconds for what a direct connection answers at once
SKEW_SEEN: Final = 1.0
SKEW_BAD: Final = 30.0


async def pooler(patient: Patient) -> list[Finding]:
    """A pooler that hands out server connections per transaction loses LISTEN, and maybe prepared statements."""
    if not await keeps_no_session(patient.dsn):
        return []
    found = []
    if patient.listen_dsn is None:
        what = "a pooler in transaction mode stands in the way: LISTEN does not work through it"
        remedy = "set PENSTOCK_LISTEN_DSN to a direct connection; workers then hear pokes"
        found.append(error("pooler", what, remedy))
    if patient.prepared and not await keeps_statements(patient.dsn):
        what = "the pooler does not keep prepared statements"
        remedy = (
            "set PENSTOCK_PREPARED_STATEMENTS=false, or let the pooler keep them (PgBouncer: max_prepared_statements)"
        )
        found.append(error("pooler", what, remedy))
    return found


async def startup_parameters(patient: Patient) -> list[Finding]:
    """Our sessions begin with a few settings; a pooler may refuse a session for one that it does not know."""
    try:
        connection = await connect.connect(patient.dsn, name="penstock doctor")
    except DatabaseUnavailable:
        what = "sessions that begin with settings of their own are refused; a pooler stands in the way"
        names = ", ".join(sorted(connect.SESSION))
        return [error("startup_parameters", what, f"let the pooler pass on {names}, or ignore them")]
    await connection.close()
    return []


async def listening(patient: Patient) -> list[Finding]:
    """A NOTIFY sent over the one connection must arrive at the listener's."""
    try:
        listener = await plain_connection(patient.listen_dsn or patient.dsn)
    except DatabaseUnavailable as unavailable:
        return [error("listening", f"the listener cannot connect: {unavailable}", "mend PENSTOCK_LISTEN_DSN")]
    try:
        heard = await _hears(patient.db, listener)
    finally:
        listener.terminate()
    if heard:
        return []
    what = "a notification did not arrive at the listener; jobs would start at the next poll only"
    remedy = "set PENSTOCK_LISTEN_DSN to a direct connection to the primary of this database"
    return [error("listening", what, remedy)]


async def clock_skew(patient: Patient) -> list[Finding]:
    """Leases go by the server's clock; people and run_at of callers by their own."""
    before = patient.client_now()
    server = await patient.db.fetchval("select clock_timestamp()")
    middle = before + (patient.client_now() - before) / 2
    skew: timedelta = abs(server - middle)
    seconds = skew.total_seconds()
    if seconds <= SKEW_SEEN:
        return []
    told = error if seconds > SKEW_BAD else warning
    what = f"the clocks of this machine and of the server are {seconds:,.1f} s apart"
    return [told("clock_skew", what, "let both follow a time server; jobs with run_at start early or late meanwhile")]


async def keeps_no_session(dsn: str) -> bool:
    """Whether consecutive transactions of one connection may meet different server sessions.

    One connection leaves a mark in its session. A second one then occupies
    whatever server session a pooler would hand out next. When the first finds
    its mark gone, or has to wait for the second, sessions are shared.
    """
    marked, rival = await plain_connection(dsn), await plain_connection(dsn)
    mark = uuid4().hex
    try:
        await marked.execute("select set_config('penstock.doctor', $1, false)", mark)
        async with rival.transaction():
            await rival.execute("select 1")
            async with asyncio.timeout(PATIENCE):
                return bool(await marked.fetchval("select current_setting('penstock.doctor', true)") != mark)
    except TimeoutError:
        return True
    finally:
        marked.terminate()
        rival.terminate()


async def keeps_statements(dsn: str) -> bool:
    """Whether a statement prepared over a connection can be used again when its session may be another one."""
    first, rival = await plain_connection(dsn, statements=10), await plain_connection(dsn)
    try:
        statement = await first.prepare("select 1 as penstock_doctor")
        await statement.fetchval()  # ends the exchange in which it was prepared, and lets its session go
        async with rival.transaction():
            await rival.execute("select 1")
            async with asyncio.timeout(PATIENCE):
                await statement.fetchval()
    except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False
    finally:
        first.terminate()
        rival.terminate()
    return True


async def _hears(speaker: asyncpg.Connection[Any], listener: asyncpg.Connection[Any]) -> bool:
    channel, heard = f"penstock_doctor_{uuid4().hex[:12]}", asyncio.Event()
    try:
        async with asyncio.timeout(PATIENCE):
            await listener.add_listener(channel, lambda *_: heard.set())
            await speaker.execute("select pg_notify($1, '')", channel)
            await heard.wait()
    except (TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False
    return True


CHECKS: Sequence[Check] = (pooler, startup_parameters, listening, clock_skew)
