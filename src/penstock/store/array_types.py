"""What the driver asks about arrays, known from the start or asked once in a process.

asyncpg knows PostgreSQL's own types by heart, but not the arrays of them. Each
connection that meets a `uuid[]` asks the catalogs, which costs a server more
than all other statements of a short run together. The numbers of these types
are the same in every PostgreSQL, so those that Penstock uses are written down
here, and one answer about any other serves all connections; of types that
somebody made, every connection asks for itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import asyncpg

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

FIRST_ASSIGNED: Final = 10_000  # numbers below are written into PostgreSQL's source; `initdb` gives out those above
BASE: Final = b"b"  # scalars and arrays; a composite type may have other columns in another version

# Arrays by number, with the name and the number of what is in them
KNOWN: Final = {
    1000: ("bool", 16), 1001: ("bytea", 17), 1005: ("int2", 21), 1007: ("int4", 23), 1009: ("text", 25),
    1015: ("varchar", 1043), 1016: ("int8", 20), 1185: ("timestamptz", 1184), 1187: ("interval", 1186),
    2951: ("uuid", 2950), 3807: ("jsonb", 3802),
}  # fmt: skip


def _row(array: int) -> dict[str, Any]:
    """What the catalogs would say about it, in the driver's words."""
    name, element = KNOWN[array]
    none = ("basetype", "range_subtype", "attrtypoids", "attrnames", "basetype_name", "range_subtype_name")
    about = {"oid": array, "ns": "pg_catalog", "name": f"_{name}", "kind": BASE, "elemtype": element, "elemdelim": b","}
    return {**dict.fromkeys(none), **about, "depth": 0, "elemtype_name": name}


_answers: dict[int, Any] = {array: _row(array) for array in KNOWN}


class NothingAsked(NamedTuple):
    """Stands for the statement that the driver believes it has asked with: it displaced no other."""

    name: str = "known"


class Informed(Connection):
    """A connection that knows what another one has found out about the arrays of PostgreSQL's own types."""

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> Any:  # noqa: ASYNC109 - the driver's
        wanted = set(typeoids)
        if wanted <= _answers.keys():
            return list(_answers.values()), NothingAsked()
        found = await super()._introspect_types(wanted, timeout)  # type: ignore[misc]  # private, so not in its types
        _answers.update({row["oid"]: row for row in found[0] if row["oid"] < FIRST_ASSIGNED and row["kind"] == BASE})
        return found
