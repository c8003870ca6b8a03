"""What the driver asks about arrays, asked once in a process and not once for each connection.

asyncpg knows PostgreSQL's own types by heart, but not the arrays of them. Each
connection that meets a `uuid[]` asks the catalogs, which costs a server more
than all other statements of a short run together. The numbers of these types
are the same in every PostgreSQL, so one answer serves all connections; of
types that somebody made, every connection asks for itself.
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

_answers: dict[int, Any] = {}


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
