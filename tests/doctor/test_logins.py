"""The doctor and the logins: what a leaked one could do that it need not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from penstock.store import members, roles
from penstock.store.doctor import Finding, Severity
from tests.doctor.conftest import Doctor
from tests.support import clusters

pytestmark = pytest.mark.contract("C-68")
Execute = Callable[..., Awaitable[None]]


async def test_the_doctor_names_who_may_make_temporary_objects_and_the_command(
    database: clusters.Database, doctor: Doctor, execute: Execute
) -> None:
    assert await doctor("temporary_objects") == []
    await execute(f"grant temporary on database {database.name} to public")
    (found,) = await doctor("temporary_objects")
    assert found.severity is Severity.WARNING
    assert "PUBLIC may make temporary objects" in found.finding
    assert "penstock roles create --revoke-temporary" in found.remedy

    await execute(
        f"revoke temporary on database {database.name} from public",
        f"grant temporary on database {database.name} to {roles.FRONTEND}",
    )
    (found,) = await doctor("temporary_objects")
    assert found.finding.startswith("penstock_frontend may")
    await execute(f"revoke temporary on database {database.name} from {roles.FRONTEND}")
    assert await doctor("temporary_objects") == []


async def test_a_member_of_a_role_without_limits_is_listed_with_what_it_lacks(
    database: clusters.Database, doctor: Doctor, execute: Execute
) -> None:
    name = f"ann_{uuid4().hex[:12]}"

    async def said() -> list[Finding]:
        return [found for found in await doctor("unlimited_logins") if name in found.finding]

    await execute(f"create role {name} login in role {roles.OPERATOR}")
    try:
        (found,) = await said()
        assert found.severity is Severity.NOTE
        assert "no connection limit, no idle_in_transaction_session_timeout, no lock_timeout" in found.finding
        assert f'alter role "{name}" connection limit' in found.remedy
        assert "penstock roles login" in found.remedy

        await execute(
            f"alter role {name} connection limit 5",
            f"alter role {name} set lock_timeout = '5s'",
            f"alter role {name} in database {database.name} set statement_timeout = '5s'",
        )
        (found,) = await said()
        assert found.finding.endswith("has no idle_in_transaction_session_timeout")
        await execute(f"alter role {name} set idle_in_transaction_session_timeout = '5s'")
        assert await said() == []
    finally:
        await execute(f"drop role {name}")


async def test_a_login_made_by_the_command_and_our_own_roles_are_not_listed(
    doctor: Doctor, superuser_dsn: str, execute: Execute
) -> None:
    name = f"ann_{uuid4().hex[:12]}"
    await members.create(superuser_dsn, name, roles.WORKER, members.DEFAULTS[roles.WORKER], None)
    try:
        listed = " ".join(found.finding for found in await doctor("unlimited_logins"))
        assert not any(f"the login {role}," in listed for role in (name, *roles.ROLES))
    finally:
        await execute(f"drop role {name}")
