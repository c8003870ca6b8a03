"""The walls: what a worker asked for and may not decide, and payloads that were opened without a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.store import types
from penstock.store.doctor import Finding, Patient, note, warning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.doctor import Check


async def pending_policies(patient: Patient) -> list[Finding]:
    """A worker cannot loosen a policy: what it asked for waits for an operator (C-71)."""
    return [
        note(
            "pending_policies",
            f"type {job_type} keeps its stored policy; its worker asks for other {', '.join(names) or 'limits'}",
            "look at the change, then run `penstock types sync MODULE:APP` with a login of penstock_operator",
        )
        for job_type, names in (await types.waiting(patient.db)).items()
    ]


async def unrecorded_openings(patient: Patient) -> list[Finding]:
    """A payload that is opened in a transaction that is rolled back leaves a number and no row."""
    count = await patient.db.fetchval("select penstock.unrecorded_openings()")
    if not count:
        return []
    what = f"{count} payloads were opened in transactions that were rolled back"
    return [warning("unrecorded_openings", what, "the server's log names the jobs and the logins: `payload of job`")]


CHECKS: Sequence[Check] = (pending_policies, unrecorded_openings)
