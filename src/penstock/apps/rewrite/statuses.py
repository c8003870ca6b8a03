"""How the requests of one home stand: all that a frontend may read (Q-05, Q-84, C-56).

Read as `penstock_frontend`. The database shows the home of the transaction and
no other, whatever is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.apps.rewrite.models import RequestStatus

if TYPE_CHECKING:
    from penstock.store.claims import Transaction

CHANNEL: Final = "rewrite_status"  # poked, without data, when a status has changed somewhere
_ENTER: Final = "select set_config('penstock.home_id', $1, true)"
# The newest changes after a moment, the oldest of them first.
_CHANGES: Final = """
select rewrite_request_id, status, completed_at, failure_code, changed_at
  from (select * from rewrite.status_changes($1) order by changed_at desc, rewrite_request_id limit $2) as newest
 order by changed_at, rewrite_request_id
"""


@dataclass(frozen=True, slots=True)
class PublicStatus:
    """One request as its home sees it, and since when it stands so."""

    rewrite_request_id: UUID
    status: RequestStatus
    completed_at: datetime | None
    failure_code: str | None
    changed_at: datetime


async def changes(connection: Transaction, home_id: UUID, since: datetime, limit: int) -> list[PublicStatus]:
    """The newest *limit* changes of the home after *since*, inside a transaction; the oldest of them first."""
    await connection.execute(_ENTER, str(home_id))
    rows = await connection.fetch(_CHANGES, since, limit)
    return [PublicStatus(row[0], RequestStatus(row[1]), row[2], row[3], row[4]) for row in rows]
