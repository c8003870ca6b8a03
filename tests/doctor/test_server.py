"""The doctor and the server: each fault is put in, found, and gone when it is taken out."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import asyncpg
import pytest

from penstock.store.checks import server as checks
from penstock.store.doctor import Finding, Severity, examine
from tests.doctor.conftest import Doctor
from tests.support import clusters, servers

Execute = Callable[..., Awaitable[None]]

# A setting of the session, the check that finds it, how bad it is, and a word of the remedy.
SETTINGS = [
    ("synchronous_commit", "off", "durability", Severity.WARNING, "synchronous_commit = on"),
    ("default_transaction_read_only", "on", "writable", Severity.ERROR, "turn it off"),
    ("default_transaction_isolation", "repeatable read", "isolation", Severity.WARNING, "reset"),
    ("track_counts", "off", "autovacuum", Severity.ERROR, "track_counts = on"),
    ("log_statement", "all", "logged_parameters", Severity.WARNING, "log_statement = ddl"),
    ("log_statement", "mod", "logged_parameters", Severity.WARNING, "log_statement = ddl"),
    ("log_min_duration_statement", "0", "logged_parameters", Severity.WARNING, "log_parameter_max_length = 0"),
    ("log_parameter_max_length_on_error", "100", "logged_parameters", Severity.WARNING, "max_length_on_error = 0"),
    ("session_replication_role", "replica", "disabled_triggers", Severity.ERROR, "reset"),
]


@pytest.mark.parametrize(("name", "value", "check", "severity", "remedy"), SETTINGS)
async def test_a_setting_that_costs_or_exposes_jobs_is_found(
    name: str, value: str, check: str, severity: Severity, remedy: str,
    doctor: Doctor, execute: Execute, database: clusters.Database,
) -> None:  # fmt: skip
    await execute(
        f"alter database {database.name} set synchronous_commit = on",
        f"alter database {database.name} set log_parameter_max_length = -1",
    )
    before = await doctor(check)
    await execute(f"alter database {database.name} set {name} = '{value}'")
    (found,) = [finding for finding in await doctor(check) if finding not in before]
    assert found.severity is severity
    assert remedy in found.remedy


async def test_a_server_without_fsync_is_an_error(doctor: Doctor) -> None:
    """The servers of the tests run without fsync, so the fault is really there."""
    (found,) = [f for f in await doctor("durability") if "fsync" in f.finding]
    assert found.severity is Severity.ERROR
    assert "fsync = on" in found.remedy


async def test_parameters_kept_out_of_the_log_are_no_problem(
    doctor: Doctor, execute: Execute, database: clusters.Database
) -> None:
    await execute(
        f"alter database {database.name} set log_statement = 'all'",
        f"alter database {database.name} set log_min_duration_statement = 0",
        f"alter database {database.name} set log_parameter_max_length = 0",
    )
    assert not [f for f in await doctor("logged_parameters") if f.is_problem]


async def test_a_transaction_left_open_is_found_with_its_process(
    doctor: Doctor, superuser_dsn: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "OLD_TRANSACTION", timedelta(0))
    other = await asyncpg.connect(dsn, server_settings={"application_name": "forgotten"})
    try:
        await other.execute("begin isolation level repeatable read; select count(*) from penstock.jobs")
        pid = other.get_server_pid()
        found = [f for f in await doctor("long_transactions", dsn=superuser_dsn) if str(pid) in f.finding]
        assert [f.severity for f in found] == [Severity.WARNING]
        assert "forgotten" in found[0].finding
        assert f"pg_terminate_backend({pid})" in found[0].remedy
    finally:
        await other.close()
    assert not [f for f in await doctor("long_transactions", dsn=superuser_dsn) if str(pid) in f.finding]


async def test_a_login_that_cannot_see_others_is_told_so(doctor: Doctor) -> None:
    (found,) = await doctor("long_transactions")
    assert found.severity is Severity.NOTE
    assert "pg_read_all_stats" in found.remedy


async def test_few_connections_left_are_found(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await doctor("connections") == []
    monkeypatch.setattr(checks, "FEW_CONNECTIONS", 100_000)
    (found,) = await doctor("connections")
    assert "connections are left" in found.finding


async def test_an_old_server_is_refused(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await doctor("server_version") == []
    monkeypatch.setattr(checks, "OLDEST_SERVER", 99)
    (found,) = await doctor("server_version")
    assert found.severity is Severity.ERROR
    assert "99 or newer" in found.finding


async def test_faults_of_a_whole_cluster_are_found_and_gone_when_mended(server: servers.PrivateServer) -> None:
    """Autovacuum off, a forgotten prepared transaction, a slot without a reader."""
    superuser = await asyncpg.connect(server.superuser_dsn)
    for setting in ("autovacuum = off", "max_prepared_transactions = 2", "wal_level = logical"):
        await superuser.execute(f"alter system set {setting}")
    await superuser.close()
    server.stop()
    server.start()

    superuser = await asyncpg.connect(server.superuser_dsn)
    await superuser.execute("begin; create table public.left_open (n int); prepare transaction 'forgotten'")
    await superuser.execute("select pg_create_physical_replication_slot('lonely', true)")
    found = {finding.check: finding for finding in await _found(server)}
    assert found["autovacuum"].severity is Severity.ERROR
    assert "'forgotten'" in found["prepared_transactions"].finding
    assert "lonely" in found["replication_slots"].finding

    await superuser.execute("rollback prepared 'forgotten'")
    await superuser.execute("select pg_drop_replication_slot('lonely')")
    await superuser.execute("alter system reset autovacuum")
    await superuser.execute("select pg_reload_conf()")
    await superuser.close()
    assert {"prepared_transactions", "replication_slots", "autovacuum"}.isdisjoint(
        f.check for f in await _found(server)
    )


async def _found(server: servers.PrivateServer) -> list[Finding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "OLD_TRANSACTION", timedelta(0))
        return await examine(server.dsn)
