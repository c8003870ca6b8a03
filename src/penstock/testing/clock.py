"""A clock that tests wind: everything Penstock compares with the time asks the database (C-22)."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.store import clock as store

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from penstock.store.claims import Db


class Clock:
    """Winds `penstock.now()`; *db* must be the owner's connection or pool, or lend a connection for a while."""

    def __init__(self, db: Db | Callable[[], AbstractAsyncContextManager[Db]]) -> None:
        self._lend: Callable[[], AbstractAsyncContextManager[Db]] = db if callable(db) else lambda: nullcontext(db)

    async def now(self) -> datetime:
        """What the database takes the time to be."""
        async with self._lend() as db:
            return await store.now(db)

    async def pass_time(self, span: timedelta | None = None, **units: float) -> None:
        """Let time pass: `pass_time(minutes=5)`, or a timedelta; a negative span goes back."""
        whole = (span or timedelta(0)) + timedelta(**_units(units))
        async with self._lend() as db:
            await store.wind(db, whole)

    async def reset(self) -> None:
        """Back to the server's own time."""
        async with self._lend() as db:
            await store.reset(db)


def _units(units: dict[str, float]) -> dict[str, Any]:
    """The words of timedelta and no others, so that a slip is an error and not a span of zero."""
    known = {"weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds"}
    if unknown := units.keys() - known:
        raise TypeError(f"pass_time takes {', '.join(sorted(known))}; not {', '.join(sorted(unknown))}")
    return units
