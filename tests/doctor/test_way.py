"""The doctor and the way to the server: poolers, LISTEN, clocks."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from penstock.store import connect
from penstock.store.doctor import Severity
from tests.doctor.conftest import Doctor
from tests.support import clusters
from tests.support.poolers import pooled


async def test_a_direct_way_is_fine(doctor: Doctor) -> None:
    assert [f for f in await doctor() if f.check in ("pooler", "listening", "startup_parameters", "clock_skew")] == []


async def test_a_transaction_pooler_in_the_way_is_found(doctor: Doctor, dsn: str) -> None:
    async with pooled(dsn) as (through, _):
        found = await doctor(dsn=through)
        (listen, statements) = [f for f in found if f.check == "pooler"]
        assert listen.severity is Severity.ERROR
        assert "PENSTOCK_LISTEN_DSN" in listen.remedy
        assert "PENSTOCK_PREPARED_STATEMENTS=false" in statements.remedy
        (deaf,) = [f for f in found if f.check == "listening"]
        assert deaf.severity is Severity.ERROR


async def test_a_pooler_with_a_direct_way_for_the_listener_is_fine(doctor: Doctor, dsn: str) -> None:
    async with pooled(dsn) as (through, _):
        found = await doctor(dsn=through, listen_dsn=dsn, prepared=False)
        assert [f for f in found if f.check in ("pooler", "listening")] == []


async def test_a_pooler_that_refuses_unknown_start_parameters_lets_our_sessions_in(doctor: Doctor, dsn: str) -> None:
    async with pooled(dsn, strict=True) as (through, _):
        assert await doctor("startup_parameters", dsn=through) == []


async def test_a_pooler_that_refuses_even_those_is_named_with_what_to_do(
    doctor: Doctor, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connect.SESSION, "statement_timeout", "60s")
    async with pooled(dsn, strict=True) as (through, _):
        (found,) = await doctor("startup_parameters", dsn=through)
        assert "statement_timeout" in found.remedy


async def test_a_listener_that_cannot_connect_or_hears_another_database_is_found(
    doctor: Doctor, database: clusters.Database
) -> None:
    (away,) = await doctor("listening", listen_dsn="postgresql://nobody:hunter2@127.0.0.1:1/none")
    assert "cannot connect" in away.finding
    assert "hunter2" not in away.finding
    (deaf,) = await doctor("listening", listen_dsn=database.server.superuser_url("postgres"))
    assert "did not arrive" in deaf.finding


@pytest.mark.parametrize(
    ("seconds", "severity"),
    [
        (0.2, None),
        (-0.5, None),
        (5, Severity.WARNING),
        (-5, Severity.WARNING),
        (31, Severity.ERROR),
        (-3600, Severity.ERROR),
    ],
)
async def test_two_clocks_apart_are_found(seconds: float, severity: Severity | None, doctor: Doctor) -> None:
    shifted: Callable[[], datetime] = lambda: datetime.now(UTC) + timedelta(seconds=seconds)  # noqa: E731 - a clock
    found = await doctor("clock_skew", client_now=shifted)
    assert [f.severity for f in found] == ([] if severity is None else [severity])


async def test_the_pooler_lends_sessions_per_transaction(dsn: str) -> None:
    """A control of the fake itself: two transactions of one connection meet different sessions."""
    async with pooled(dsn) as (through, _):
        one = await asyncpg.connect(through, statement_cache_size=0)
        two = await asyncpg.connect(through, statement_cache_size=0)
        first = await one.fetchval("select pg_backend_pid()")
        async with two.transaction():
            assert await two.fetchval("select pg_backend_pid()") == first
            assert await one.fetchval("select pg_backend_pid()") != first
        one.terminate()
        two.terminate()
