"""Whether a login is the one that its place asks for: bound by the rules, and with the rights of its role."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.contract.errors import SettingsInvalid, UnsafeLogin
from penstock.store import connect
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.claims import Transaction


async def require_role(connection: Transaction, role: str, *, schemas: Sequence[str], setting: str) -> None:
    """Refuse a login that no rule binds, and one that lacks the rights of *role*.

    A superuser, BYPASSRLS and an owner of one of *schemas* see the rows of every
    home, whatever the transaction says; each raises `UnsafeLogin`.
    """
    await connect.refuse_unsafe_login(connection, instead=role)
    facts = await connection.fetchrow(sql("logins/facts"), role, schemas)
    if facts is None:
        return
    if facts["owns"]:
        raise UnsafeLogin(
            f"the login {facts['name']!r} owns the schema, so row-level security does not bind it; give "
            f"{setting} the login {role}, or pass --insecure to accept the risk"
        )
    if not facts["member"]:
        raise SettingsInvalid(
            f"the login {facts['name']!r} is no member of {role}, whose rights these routes need; give {setting} "
            f"the login {role}, or: grant {role} to {facts['name']}"
        )
