"""The doctor and the logins: what a leaked one could do that it need not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from penstock.store import roles
from penstock.store.doctor import Severity
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
