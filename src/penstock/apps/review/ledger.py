"""The ledger behind a delivery: the engine's, and the row that people ask about, in one transaction (C-61).

So the two cannot disagree: an intent is on both or on neither, and so is a
mark. What decides is the row, which is read again and locked before anything
is sent (N-14, N-38).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from penstock.apps.review import deliveries
from penstock.contract.errors import StepRefused
from penstock.store import effects as store
from penstock.store.effects import Intent, Standing
from penstock.store.transactions import transaction

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.apps.review.deliveries import Delivery
    from penstock.contract.claims import Claim
    from penstock.store.claims import Db, Transaction

_GOES_ON: Final = frozenset({"absent", "repeated_unsettled"})  # ways to settle that a send follows


class NotOpen(StepRefused):
    """The delivery has failed or is being looked into: nothing is sent (N-32)."""


class _Told(Exception):
    """Rolls the engine's intent back: there is nothing to do."""

    def __init__(self, result: str) -> None:
        self.result = result


class DeliveryLedger:
    """Writes for one try of one delivery. *sends* is false where it is only looked up."""

    def __init__(self, row: Delivery, *, sends: bool = True) -> None:
        self.row = row
        self._sends = sends
        self._nonce: UUID | None = None
        self._job_id: UUID | None = None
        self._attempt: int | None = None

    async def intend(
        self,
        db: Db,
        worker: str,
        claim: Claim,
        *,
        effect_key: str,
        kind: str,
        token: str,
        holds_claim: bool,
        nonce: UUID,
    ) -> Intent:
        """Commit the intent of a send, on the effect and on the row.

        A row that is marked answers that it is done, whatever the effect says,
        and one that may have been sent that it must be settled first.
        """
        self._nonce, self._job_id = nonce, claim.job_id
        try:
            async with transaction(db) as tx:
                intent = await store.intend(
                    tx,
                    worker,
                    claim,
                    effect_key=effect_key,
                    kind=kind,
                    token=token,
                    holds_claim=holds_claim,
                    nonce=nonce,
                )
                if intent.standing in (Standing.LOST, Standing.BUSY):
                    return intent
                return await self._begin(tx, intent, nonce)
        except _Told as told:
            return Intent(Standing.DONE, told.result)

    async def _begin(self, tx: Transaction, intent: Intent, nonce: UUID) -> Intent:
        self.row = row = await deliveries.reread(tx, self.row.delivery_id)
        if row.notified_at is not None:
            raise _Told(json.dumps({"notification_id": row.notification_id}))
        if intent.standing is Standing.DONE:  # somebody has said so to the engine alone
            await self._mark(tx, intent.result)
            return intent
        if not row.open:
            raise NotOpen(f"delivery {row.delivery_id} is {'waived' if row.waived else row.status}; nothing is sent")
        written = row.intent_id == nonce  # by a try whose reply was lost
        if not written:
            await deliveries.begin(tx, row.delivery_id, nonce)
        before = row.send_count - written
        if before > 0 or row.notification_id is not None:
            return Intent(Standing.AGAIN)
        if intent.standing is not Standing.AGAIN:
            await self._note_send(tx, written=written)
        return intent

    async def mark(self, db: Db, effect_key: str, claim: Claim, result: str | None, outcome: str) -> bool:
        """The recipient was told. A claim that has lost the effect marks nothing, the row included."""
        async with transaction(db) as tx:
            if not await store.mark(tx, effect_key, claim, result, outcome):
                return False
            await self._mark(tx, result)
            if self._attempt is not None:
                await deliveries.end_attempt(tx, self._attempt, "sent")
            return True

    async def marked_by(self, db: Db, effect_key: str, claim: Claim) -> bool:
        """Whether *claim* has marked it: then the row is marked as well."""
        return await store.marked_by(db, effect_key, claim)

    async def doubt(self, db: Db, effect_key: str, claim: Claim) -> None:
        """Nobody can tell whether it was sent."""
        async with transaction(db) as tx:
            await store.doubt(tx, effect_key, claim)
            await deliveries.hold(tx, self.row.delivery_id)

    async def disprove(self, db: Db, effect_key: str, claim: Claim) -> None:
        """This send has certainly not happened."""
        async with transaction(db) as tx:
            await store.disprove(tx, effect_key, claim)
            if self._nonce is not None:
                await deliveries.disprove(tx, self.row.delivery_id, self._nonce)

    async def note(self, db: Db, effect_key: str, action: str, outcome: str) -> None:
        """What came of a call; a send that follows is written down with it."""
        async with transaction(db) as tx:
            await store.note(tx, effect_key, action, outcome)
            if action == "settle" and outcome in _GOES_ON:
                await self._note_send(tx)
            elif outcome != "found":
                await deliveries.note_error(tx, self.row.delivery_id, outcome.rpartition(" ")[2])
            if action == "perform" and self._attempt is not None:
                await deliveries.end_attempt(tx, self._attempt, outcome)

    async def _note_send(self, tx: Transaction, *, written: bool = False) -> None:
        if not self._sends or self._job_id is None:
            return
        if written:
            self._attempt = await deliveries.started_attempt(tx, self.row.delivery_id)
        else:
            self._attempt = await deliveries.begin_attempt(tx, self.row.delivery_id, self._job_id)

    async def _mark(self, tx: Transaction, result: str | None) -> None:
        receipt = json.loads(result) if result else None
        known = receipt if isinstance(receipt, dict) else {}
        confirmed = known.get("confirmed") is True
        await deliveries.mark(tx, self.row.delivery_id, known.get("notification_id"), confirmed=confirmed)
