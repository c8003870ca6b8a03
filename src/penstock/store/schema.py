"""Whether the schema fits this code, without Alembic: every worker asks at its start."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.contract.errors import SchemaOutdated

if TYPE_CHECKING:
    from penstock.store.claims import Db

_VERSIONS: Final = Path(__file__).parent / "migrations" / "versions"


@cache
def head() -> str:
    """The newest version this code brings: migrations are files `v<number>_<name>.py`, in one line."""
    return max(path.name[1:].partition("_")[0] for path in _VERSIONS.glob("v*_*.py"))


async def version(db: Db) -> str | None:
    """The version of the schema; None when there is none."""
    if not await db.fetchval("select to_regclass('penstock.schema_version') is not null"):
        return None
    found: str | None = await db.fetchval("select version_num from penstock.schema_version")
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
