"""Statements on either side's connection: a SQLAlchemy session of whoever saves, the driver's own of a worker."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from penstock.apps.vault.statements import sql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.store.claims import Transaction

_NUMBERED: Final = re.compile(r"\$(\d+)")


class Rows(Protocol):
    """What the repositories ask of a connection. Values are text and numbers, which every driver takes."""

    async def all(self, name: str, *values: Any) -> Sequence[Mapping[str, Any]]:
        """Every row of the statement *name*."""

    async def one(self, name: str, *values: Any) -> Mapping[str, Any] | None:
        """Its first row, or None."""


class SessionRows:
    """A session; what waits in it is written first, as a statement may ask for it."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def all(self, name: str, *values: Any) -> Sequence[Mapping[str, Any]]:
        """Every row of the statement *name*."""
        named = {f"p{number}": value for number, value in enumerate(values, start=1)}
        found = (await self._session.execute(text(_named(name)), named)).mappings()
        return [{**row} for row in found]

    async def one(self, name: str, *values: Any) -> Mapping[str, Any] | None:
        """Its first row, or None."""
        found = await self.all(name, *values)
        return found[0] if found else None


class NativeRows:
    """A connection of the driver's own."""

    def __init__(self, connection: Transaction) -> None:
        self._connection = connection

    async def all(self, name: str, *values: Any) -> Sequence[Mapping[str, Any]]:
        """Every row of the statement *name*."""
        found: Sequence[Mapping[str, Any]] = await self._connection.fetch(sql(name), *values)
        return found

    async def one(self, name: str, *values: Any) -> Mapping[str, Any] | None:
        """Its first row, or None."""
        found: Mapping[str, Any] | None = await self._connection.fetchrow(sql(name), *values)
        return found


def rows_of(db: AsyncSession | Transaction) -> Rows:
    """The statements on *db*."""
    return SessionRows(db) if isinstance(db, AsyncSession) else NativeRows(db)


@cache
def _named(name: str) -> str:
    """The statement with `:p1` for `$1`; a comment could hold what is taken for a name."""
    lines = (line for line in sql(name).splitlines() if not line.startswith("--"))
    return _NUMBERED.sub(r":p\1", "\n".join(lines))
