"""The rows of deliveries: who is told, whether they were, and every call that was made about it.

A row stands for the one intent that a recipient is told about one version of
one changelist (N-36). Nothing here sends; whoever does writes through these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from penstock.apps.review.statements import sql
from penstock.contract.errors import NotFound, StepRefused
from penstock.contract.keys import token, uuid7
from penstock.engine.alerts import raise_alert
from penstock.store.alerts import Severity
from penstock.store.transactions import transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.apps.review.models import Recipient
    from penstock.store.claims import Db, Transaction


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery as it stood when it was read."""

    delivery_id: UUID
    review_id: UUID
    channel: str
    address: str = field(repr=False)
    required: bool
    token: str
    payload: bytes | None = field(repr=False)
    status: str
    send_count: int  # sends that may have happened
    first_send_at: datetime | None
    intent_id: UUID | None
    notification_id: str | None
    notified_at: datetime | None
    last_error_code: str | None
    waived: bool
    now: datetime

    @property
    def told(self) -> bool:
        """Whether nothing more is to be done for this recipient: told, or excused by an operator."""
        return self.notified_at is not None or self.waived

    @property
    def open(self) -> bool:
        """Whether the stage may try it."""
        return self.status == "pending" and not self.told

    @property
    def in_doubt(self) -> bool:
        """Whether an earlier send may have happened (C-42)."""
        return self.notified_at is None and (self.send_count > 0 or self.notification_id is not None)


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """A delivery that is to be written down, before anything is sent."""

    recipient: Recipient = field(repr=False)
    token: str
    promise: str
    payload: bytes | None = field(repr=False)
    delivery_id: UUID = field(default_factory=uuid7)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A delivery that a sweep asks a provider about."""

    delivery_id: UUID
    channel: str
    token: str
    status: str
    notification_id: str | None
    notified_at: datetime | None


def delivery_token(changelist_id: str, recipient: str, review_version: int) -> str:
    """The token that a recipient's provider sees: from the key of the delivery and nothing else (N-10, N-39)."""
    return token(changelist_id, recipient.strip().lower(), review_version)


# ---------------------------------------------------------------- before anything is sent


async def missing(db: Db, review_id: UUID) -> list[asyncpg.Record]:
    """Recipients without a delivery."""
    return await db.fetch(sql("deliveries/missing"), review_id)


async def insert(db: Db, review_id: UUID, rows: Sequence[NewDelivery]) -> None:
    """Write deliveries down, all or none; those that are there stay as they are (N-08)."""
    await db.execute(
        sql("deliveries/insert"),
        review_id,
        [row.delivery_id for row in rows],
        [row.recipient.recipient for row in rows],
        [str(row.recipient.channel) for row in rows],
        [row.recipient.address for row in rows],
        [row.recipient.required for row in rows],
        [row.promise for row in rows],
        [row.token for row in rows],
        [row.payload for row in rows],
    )


async def load(db: Db, review_id: UUID) -> list[Delivery]:
    """Every delivery of a review, in a stable order."""
    return [Delivery(**row) for row in await db.fetch(sql("deliveries/load"), review_id)]


async def write(db: Db, delivery_id: UUID, payload: bytes, promise: str) -> None:
    """What is sent from now on; what was written before stays."""
    await db.execute(sql("deliveries/write"), delivery_id, payload, promise)


async def open_again(db: Db, review_id: UUID, job_id: UUID) -> None:
    """The replay *job_id* tries required recipients again who were not told; it opens each once."""
    await db.execute(sql("deliveries/open_again"), review_id, job_id)


# --------------------------------------------------------------------------- one send


async def reread(tx: Transaction, delivery_id: UUID) -> Delivery:
    """The row as it is now, locked until the transaction ends (N-14)."""
    row = await tx.fetchrow(sql("deliveries/reread"), delivery_id)
    if row is None:
        raise NotFound("delivery", delivery_id)
    return Delivery(**row)


async def begin(tx: Transaction, delivery_id: UUID, intent_id: UUID) -> None:
    """Count a send that is about to be made."""
    await tx.execute(sql("deliveries/begin"), delivery_id, intent_id)


async def mark(tx: Transaction, delivery_id: UUID, notification_id: str | None, *, confirmed: bool) -> None:
    """The recipient was told: id, time and status in one write (N-12)."""
    await tx.execute(sql("deliveries/mark"), delivery_id, notification_id, confirmed)


async def disprove(tx: Transaction, delivery_id: UUID, intent_id: UUID) -> None:
    """The send of *intent_id* has certainly not happened: it does not count."""
    await tx.execute(sql("deliveries/disprove"), delivery_id, intent_id)


async def note_error(db: Db, delivery_id: UUID, code: str) -> None:
    """What the last call about it failed of."""
    await db.execute(sql("deliveries/note_error"), delivery_id, code)


async def hold(db: Db, delivery_id: UUID, code: str | None = None) -> None:
    """Nobody can tell whether it was sent: left to a sweep or a person, who hears of it."""
    async with transaction(db) as tx:
        review_id = await tx.fetchval(sql("deliveries/hold"), delivery_id, code)
        if review_id is not None:
            subject = {"delivery_id": delivery_id, "review_id": review_id}
            await raise_alert(tx, "delivery_unsettled", Severity.ALERT, subject)


async def fail(db: Db, delivery_id: UUID, code: str | None, *, proven_absent: bool = False) -> None:
    """This recipient is not told; an operator or whoever asked has to act, and hears of it (N-22)."""
    async with transaction(db) as tx:
        review_id = await tx.fetchval(sql("deliveries/fail"), delivery_id, code, proven_absent)
        if review_id is not None:
            subject = {"delivery_id": delivery_id, "review_id": review_id, "code": code}
            await raise_alert(tx, "delivery_failed", Severity.ALERT, subject)


# ------------------------------------------------------------------- the calls (N-20)


async def begin_attempt(tx: Transaction, delivery_id: UUID, job_id: UUID) -> int:
    """Write a send down before it is made."""
    return int(await tx.fetchval(sql("deliveries/begin_attempt"), delivery_id, job_id))


async def started_attempt(tx: Transaction, delivery_id: UUID) -> int | None:
    """The last send that was written down and has no end yet."""
    found: int | None = await tx.fetchval(sql("deliveries/started_attempt"), delivery_id)
    return found


async def end_attempt(tx: Transaction, attempt_id: int, outcome: str) -> None:
    """What came of a send."""
    await tx.execute(sql("deliveries/end_attempt"), attempt_id, outcome)


async def note_lookup(db: Db, delivery_id: UUID, job_id: UUID | None, outcome: str) -> None:
    """A provider was asked; *job_id* is none when a sweep or an operator did."""
    if job_id is None:
        await db.execute("select review.note_lookup($1, $2)", delivery_id, outcome)
    else:
        await db.execute(sql("deliveries/note_lookup"), delivery_id, job_id, outcome)


# --------------------------------------------------------------- sweeps and operators


async def unsettled(
    db: Db,
    *,
    by_token: Sequence[str],
    by_id: Sequence[str],
    grace: timedelta,
    limit: int,
    only: Sequence[UUID] | None = None,
) -> list[Unsettled]:
    """Deliveries that a provider can be asked about: sent without its word for *grace*, or in doubt."""
    rows = await db.fetch(sql("deliveries/unsettled"), by_token, by_id, grace, only, limit)
    return [Unsettled(**row) for row in rows]


async def suspect(db: Db, delivery_id: UUID) -> bool:
    """Its provider knows nothing of what is marked as sent: an alert, and no send before it is settled (N-32)."""
    return bool(await db.fetchval("select review.suspect_delivery($1)", delivery_id))


async def settle(
    db: Db, delivery_id: UUID, *, happened: bool, who: str, notification_id: str | None = None, proven: bool = False
) -> str:
    """Whether it was sent is known now; returns the status that follows.

    One that a live claim has in hand is left to it: `StepRefused`.
    """
    try:
        status: str | None = await db.fetchval(
            "select review.settle_delivery($1, $2, $3, $4, $5)", delivery_id, happened, notification_id, who, proven
        )
    except asyncpg.ObjectInUseError:
        raise StepRefused(
            f"delivery {delivery_id} is being sent right now; wait until its job has ended or its lease has expired"
        ) from None
    if status is None:
        raise NotFound("delivery", delivery_id)
    return status


async def cleared(db: Db) -> int:
    """How many deliveries were cleared and are not sent again yet."""
    return int(await db.fetchval(sql("deliveries/cleared")))


async def redeliver(db: Db, limit: int) -> int:
    """Enqueue jobs for what was cleared after its job had ended well; returns how many."""
    return int(await db.fetchval("select review.redeliver($1)", limit))


async def waive(db: Db, delivery_id: UUID, *, who: str) -> str:
    """Excuse a recipient; returns the status of the delivery, which stays."""
    status: str | None = await db.fetchval("select review.waive_delivery($1, $2)", delivery_id, who)
    if status is None:
        raise NotFound("delivery", delivery_id)
    return status


async def listed(
    db: Db, *, status: str | None, channel: str | None, review_id: UUID | None, changelist_id: str | None, limit: int
) -> list[dict[str, Any]]:
    """Deliveries with their proof, the newest first."""
    rows = await db.fetch(sql("deliveries/list"), status, channel, review_id, changelist_id, limit)
    return [dict(row) for row in rows]


async def shown(db: Db, delivery_id: UUID) -> dict[str, Any]:
    """One delivery with every call that was made about it."""
    row = await db.fetchrow(sql("deliveries/show"), delivery_id)
    if row is None:
        raise NotFound("delivery", delivery_id)
    calls = await db.fetch(sql("deliveries/attempts"), delivery_id)
    return {**row, "attempts": [dict(call) for call in calls]}
