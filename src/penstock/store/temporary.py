"""Temporary objects: who may make them in this database, and how the right is taken away.

PostgreSQL gives it to everybody. A login that has leaked can put a table, a
type or a function of its own in front of those that a careless statement
names, and fill the disk out of sight of every quota on tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.contract.errors import PenstockError
from penstock.store.roles import ROLES, session

if TYPE_CHECKING:
    import asyncpg

COMMAND: Final = "penstock roles create --revoke-temporary"

_MAKERS: Final = """
select 'PUBLIC' as name
  from pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) as a
 where d.datname = current_database() and a.grantee = 0 and a.privilege_type = 'TEMPORARY'
 union all
select rolname::text from pg_roles
 where rolname = any($1::text[]) and not rolsuper
   and has_database_privilege(oid, current_database(), 'temporary')
"""
_DATABASE: Final = """
select current_database()::text as name, quote_ident(current_database()) as quoted, session_user::text as login,
       pg_get_userbyid(datdba)::text as owner, pg_has_role(datdba, 'usage') as may
  from pg_database where datname = current_database()
"""
_THERE: Final = "select rolname::text from pg_roles where rolname = any($1::text[])"


async def makers(connection: asyncpg.Connection[Any]) -> list[str]:
    """Of PUBLIC and our roles, those who may make temporary objects in this database; PUBLIC means all of them."""
    found = [row["name"] for row in await connection.fetch(_MAKERS, list(ROLES))]
    return ["PUBLIC"] if "PUBLIC" in found else sorted(found)


async def revoke(owner_dsn: str) -> str:
    """Take the right from PUBLIC and from our roles; return the database's name.

    The owner keeps it. A login that is not the database's owner is refused
    with the name of the one that is: PostgreSQL itself would only warn. To do
    it again changes nothing.
    """
    async with session(owner_dsn) as connection:
        database = await connection.fetchrow(_DATABASE)
        if database is None or not database["may"]:
            raise _not_the_owner(database)
        there = [row["rolname"] for row in await connection.fetch(_THERE, list(ROLES))]
        await connection.execute(
            f"revoke temporary on database {database['quoted']} from {', '.join(['public', *there])}"
        )
        if left := await makers(connection):
            raise PenstockError(
                f"{', '.join(left)} may still make temporary objects in {database['name']}: another login granted it, "
                "or a role it is a member of has it; a superuser can take it away"
            )
        name: str = database["name"]
        return name


def _not_the_owner(database: asyncpg.Record | None) -> PenstockError:
    if database is None:
        return PenstockError("this database is not in the catalogue; connect to it directly and run the command again")
    return PenstockError(
        f"the login {database['login']!r} does not own the database {database['name']}; {database['owner']!r} does, "
        f"and it or a superuser can take TEMPORARY away: set PENSTOCK_DSN to that login and run `{COMMAND}` again"
    )
