"""The doctor and the schema, the login and the roles."""

from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from penstock.store import clock, roles
from penstock.store.doctor import Severity, examine
from tests.doctor.conftest import Doctor
from tests.support import clusters, servers

Execute = Callable[..., Awaitable[None]]

# A fault, the check that finds it, a word of the finding and a word of the remedy.
FAULTS = [
    ("update penstock.schema_version set version_num = '0000'", "schema_version", "of version 0000", "newer Penstock"),
    ("drop schema penstock cascade", "schema_version", "missing", "penstock migrate up"),
    ("insert into penstock.clock (shift) values ('1 hour')", "wound_clock", "1:00:00", "delete from penstock.clock"),
    (
        "alter table penstock.jobs set (autovacuum_enabled = false)",
        "table_autovacuum", "penstock.jobs", "reset (autovacuum_enabled)",
    ),
    (
        "alter table penstock.jobs disable trigger jobs_legal_moves",
        "disabled_triggers", "jobs_legal_moves", "enable trigger jobs_legal_moves",
    ),
    (
        "update pg_index set indisvalid = false where indexrelid = 'penstock.jobs_not_due'::regclass",
        "broken_indexes", "penstock.jobs_not_due is invalid", "reindex index penstock.jobs_not_due",
    ),
    ("drop index penstock.idx_outbox_runnable", "broken_indexes", "idx_outbox_runnable is missing", "migrate up --sql"),
    ("revoke update on penstock.jobs from penstock_worker", "cluster_roles", "penstock_worker lacks", "roles grant"),
    ("revoke all on schema penstock from penstock_frontend", "cluster_roles", "penstock_frontend lacks", "roles grant"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "check", "finding", "remedy"), FAULTS)
async def test_a_fault_of_the_schema_is_found_with_its_remedy(
    fault: str, check: str, finding: str, remedy: str, doctor: Doctor, execute: Execute
) -> None:
    assert await doctor(check) == []
    await execute(fault)
    (found,) = await doctor(check)
    assert found.is_problem
    assert finding in found.finding
    assert remedy in found.remedy


async def test_a_superuser_login_is_an_error(doctor: Doctor, superuser_dsn: str) -> None:
    assert await doctor("unsafe_login") == []
    (found,) = await doctor("unsafe_login", dsn=superuser_dsn)
    assert found.severity is Severity.ERROR
    assert "penstock_worker" in found.remedy


async def test_the_owner_is_told_to_leave_the_work_to_the_worker_role(
    doctor: Doctor, role_dsn: Callable[[str], str]
) -> None:
    (found,) = await doctor("owner_login")
    assert found.severity is Severity.NOTE
    assert await doctor("owner_login", dsn=role_dsn(roles.WORKER)) == []


async def test_roles_that_are_missing_or_unbound_are_found(server: servers.PrivateServer) -> None:
    connection = await asyncpg.connect(server.superuser_dsn)
    await connection.execute("drop owned by penstock_frontend; drop role penstock_frontend")
    await connection.execute("alter role penstock_operator bypassrls")
    await connection.close()
    found = {f.finding: f for f in await examine(server.dsn) if f.check == "cluster_roles"}
    (missing,) = [f for text, f in found.items() if "penstock_frontend does not exist" in text]
    (unbound,) = [f for text, f in found.items() if "penstock_operator" in text]
    assert "penstock roles create" in missing.remedy
    assert unbound.severity is Severity.ERROR
    assert "nobypassrls" in unbound.remedy


async def test_a_role_that_may_not_look_gets_notes_and_no_error(
    doctor: Doctor, role_dsn: Callable[[str], str], database: clusters.Database
) -> None:
    found = await doctor(dsn=role_dsn(roles.FRONTEND))
    assert [f for f in found if "may not look" in f.finding]
    assert database.name


async def test_a_clock_that_is_wound_back_by_hand_is_found_gone(doctor: Doctor, dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await clock.reset(connection)
    await connection.close()
    assert await doctor("wound_clock") == []
