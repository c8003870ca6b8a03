"""The login and the roles of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.store import roles, temporary
from penstock.store.doctor import Finding, Patient, error, note, warning
from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.doctor import Check

TIMEOUTS: Final = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


async def unsafe_login(patient: Patient) -> list[Finding]:
    """No rule of the database binds a superuser or a login with BYPASSRLS."""
    row = await patient.db.fetchrow(
        "select rolname::text as name, rolsuper, rolbypassrls from pg_roles where rolname = session_user"
    )
    if row is None or not (row["rolsuper"] or row["rolbypassrls"]):
        return []
    kind = "a superuser" if row["rolsuper"] else "exempt from row-level security (BYPASSRLS)"
    remedy = "give workers the DSN of penstock_worker, applications that of penstock_orchestrator"
    return [error("unsafe_login", f"the login {row['name']} is {kind}; no rule of the database binds it", remedy)]


async def owner_login(patient: Patient) -> list[Finding]:
    """The owner may change everything; workers need far less."""
    if not patient.has_schema:
        return []
    owner = await patient.db.fetchval("select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'penstock'")
    if owner != await patient.db.fetchval("select session_user::text"):
        return []
    remedy = "use it for migrations; give workers the DSN of penstock_worker"
    return [note("owner_login", f"the login {owner} owns the schema and may change everything in it", remedy)]


async def cluster_roles(patient: Patient) -> list[Finding]:
    """The five roles exist, are bound by rules, and have their rights here."""
    found: list[Finding] = []
    for role in await roles.look(patient.db):
        if not role.exists:
            what = f"the role {role.name} does not exist"
            found.append(warning("cluster_roles", what, "run `penstock roles create` with a login that has CREATEROLE"))
        elif role.unsafe:
            what = f"the role {role.name} is a superuser or exempt from row-level security"
            found.append(error("cluster_roles", what, f"alter role {role.name} nosuperuser nobypassrls"))
        elif patient.has_schema and not role.granted:
            what = f"the role {role.name} lacks its rights in this database"
            found.append(warning("cluster_roles", what, "run `penstock roles grant` as the owner of the schema"))
    return found


async def temporary_objects(patient: Patient) -> list[Finding]:
    """A leaked login hides names in its temporary schema, or fills the disk with what no table shows."""
    found = await temporary.makers(patient.db)
    if not found:
        return []
    what = f"{', '.join(found)} may make temporary objects in this database, and so may a login that has leaked"
    return [warning("temporary_objects", what, f"run `{temporary.COMMAND}` as the owner of the database")]


async def unlimited_logins(patient: Patient) -> list[Finding]:
    """A login that runs wild takes the server along; limits of its own are seat belts against that."""
    found: list[Finding] = []
    for row in await patient.db.fetch(sql("logins/unlimited"), list(roles.ROLES), list(TIMEOUTS)):
        lacks = [*(["connection limit"] if row["unlimited"] else []), *row["missing"]]
        what = f"the login {row['name']}, a member of {row['role']}, has no {', no '.join(lacks)}"
        quoted = '"' + row["name"].replace('"', '""') + '"'
        statements = [
            *([f"alter role {quoted} connection limit 50"] if row["unlimited"] else []),
            *(f"alter role {quoted} set {setting} = '…'" for setting in row["missing"]),
        ]
        remedy = f"{'; '.join(statements)}. `penstock roles login` makes logins that have them"
        found.append(note("unlimited_logins", what, remedy))
    return found


CHECKS: Sequence[Check] = (unsafe_login, owner_login, cluster_roles, temporary_objects, unlimited_logins)
