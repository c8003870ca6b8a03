"""Jobs that a process held when it ended, claimed as a worker claims them: set aside first, then taken."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from penstock.contract.claims import Claim
from penstock.store import claims as store

if TYPE_CHECKING:
    from penstock.store.claims import Db

AT_ONCE = timedelta(0)
AWHILE = timedelta(seconds=30)


async def take_suspect(
    db: Db, types: Sequence[str], *, worker: str, lease: timedelta = timedelta(minutes=5)
) -> list[Claim]:
    """The next suspect of *types*; none when none waits or its gate is shut."""
    reserved = await store.reserve(db, types, span=AWHILE, waited=AT_ONCE, worker=worker)
    if reserved is None:
        return []
    claims = await store.take_suspect(db, reserved, lease, worker=worker, run=uuid4())
    if not claims:
        await store.keep_reserved(db, reserved, None)
    return claims
