"""What the database refused, in words that say the next step and repeat no data."""

from __future__ import annotations

from typing import Final

import asyncpg

from penstock.contract.errors import DatabaseUnavailable, InputRefused, PenstockError, SchemaOutdated, StepRefused
from penstock.store.connect import AWAY

_NO_SCHEMA: Final = (
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedFunctionError,
    asyncpg.InvalidSchemaNameError,
)


def explained(error: BaseException) -> PenstockError | None:
    """The Penstock error for *error* of the driver; None when it is none that a user can cause.

    The driver's own text is left out: it may repeat a row (rule 9 of the fault list).
    """
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return StepRefused(
            "this login may not do that; log in as the role for it: penstock_operator cancels and replays, "
            "penstock_worker works, penstock_orchestrator enqueues (`penstock roles create` makes them)"
        )
    if isinstance(error, _NO_SCHEMA):
        return SchemaOutdated("the schema does not fit this Penstock; run `penstock migrate up`")
    if isinstance(error, asyncpg.DataError) and error.severity is None:  # the driver's own; a server names a severity
        return InputRefused(
            "a value given is out of range, or text that is no UTF-8; nothing was sent; mend it and try again"
        )
    if isinstance(error, AWAY):
        return DatabaseUnavailable(
            f"the database went away ({type(error).__name__}); nothing was half-written, run the command again"
        )
    return None
