"""Whether a login is the one that its place asks for: bound by the rules, and with the rights of its role."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import SettingsInvalid, UnsafeLogin
from penstock.store.lines import lines
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.claims import Transaction
    from penstock.store.connect import Record

# Roles of PostgreSQL's own that reach every table or the machine itself, whatever is granted.
BOUNDLESS: Final = (
    "pg_read_all_data",
    "pg_write_all_data",
    "pg_read_server_files",
    "pg_write_server_files",
    "pg_execute_server_program",
)
# What is wrong with a login, the worst first: a fact about it, in words, and what follows.
_DANGERS: Final = (
    ("superuser", "a superuser", "no rule of the database binds it"),
    ("bypasses", "exempt from row-level security (BYPASSRLS)", "no rule of the database binds it"),
    ("predefined", "of those whom grants do not bind", "it reaches more than its own tables"),
    ("gives_itself", "allowed to give itself roles (CREATEROLE)", "grants do not bind it"),
    ("replicates", "allowed to replicate the server (REPLICATION)", "it can read every database"),
    ("owns", "the owner of the schema", "neither grants nor row-level security bind it"),
)


async def refuse_unsafe(
    connection: Transaction,
    *,
    instead: str = "penstock_worker",
    schemas: Sequence[str] | None = None,
    setting: str | None = None,
) -> Record | None:
    """Refuse a login that grants and row-level security do not bind, by itself or through a role it is a member of.

    For all that runs code of others or answers to them: workers, runs,
    schedulers, the server. A superuser, BYPASSRLS, an owner of one of *schemas*
    (those of the engine and of every installed application, unless named) and
    the predefined roles that pass by all grants raise `UnsafeLogin`. Returns
    what it knows about the login.
    """
    facts: Record | None = await connection.fetchrow(sql("logins/facts"), instead, schemas or _schemas(), BOUNDLESS)
    if facts is None:
        return None
    for fact, what, so in _DANGERS:
        through: str | None = facts[fact]
        if through is not None:
            login = facts["name"]
            kind = what if through == login else f"a member of {through!r}, which is {what}"
            use = f"give {setting} the login {instead}" if setting else f"log in as {instead}"
            raise UnsafeLogin(
                f"the login {login!r} is {kind}, so {so}; {use} (`penstock roles create` makes it), "
                "or pass --insecure (in code: insecure=True) to accept the risk"
            )
    return facts


@cache
def _schemas() -> list[str]:
    """Those of this installation, found once: every package on the path is asked for them."""
    return [line.schema for line in lines()]


async def require_role(connection: Transaction, role: str, *, schemas: Sequence[str], setting: str) -> None:
    """Refuse a login that no rule binds, and one that lacks the rights of *role*."""
    facts = await refuse_unsafe(connection, instead=role, schemas=schemas, setting=setting)
    if facts is not None and not facts["member"]:
        raise SettingsInvalid(
            f"the login {facts['name']!r} is no member of {role}, whose rights these routes need; give {setting} "
            f"the login {role}, or: grant {role} to {facts['name']}"
        )
