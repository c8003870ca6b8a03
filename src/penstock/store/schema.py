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


async def require_current(db: Db, line: Line = ENGINE) -> None:
    """Refuse to go on with a schema that is missing, older or newer than this code."""
    found, needed = await version(db, line), newest(line)
    if found == needed:
        return
    if found is None:
        raise SchemaOutdated(f"this database has no schema {line.schema}; run `penstock migrate up` as its owner")
    if found > needed:
        raise SchemaOutdated(
            f"the schema {line.schema} is of version {found} and this Penstock knows {needed}; install the newer "
            f"Penstock, or take the schema back with `penstock migrate down {needed}` from the newer one"
        )
    raise SchemaOutdated(
        f"the schema {line.schema} is of version {found} and this Penstock needs {needed}; run `penstock migrate up`"
    )
