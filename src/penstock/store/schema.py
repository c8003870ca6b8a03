"""Whether the schema fits this code, without Alembic: every worker asks at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.contract.errors import SchemaOutdated
from penstock.store.lines import ENGINE, Line, newest

if TYPE_CHECKING:
    from penstock.store.claims import Db


def head() -> str:
    """The newest version of the engine that this code brings."""
    return newest(ENGINE)


async def version(db: Db, line: Line = ENGINE) -> str | None:
    """The version of the schema of *line*; None when there is none."""
    table = f"{line.schema}.schema_version"
    if not await db.fetchval("select to_regclass($1) is not null", table):
        return None
    found: str | None = await db.fetchval(f"select version_num from {table}")  # noqa: S608 - our name
    return found


async def require_current(db: Db) -> None:
    """Refuse to go on with a schema that is missing, older or newer than this code."""
    found = await version(db)
    if found == head():
        return
    if found is None:
        raise SchemaOutdated("this database has no Penstock schema; run `penstock migrate up` as its owner")
    if found > head():
        raise SchemaOutdated(
            f"the schema is of version {found} and this Penstock knows {head()}; install the newer Penstock, "
            f"or take the schema back with `penstock migrate down {head()}` from the newer one"
        )
    raise SchemaOutdated(
        f"the schema is of version {found} and this Penstock needs {head()}; run `penstock migrate up`"
    )
