"""The stage `notify`: everybody is told, once each, and the job ends only when they were (C-42 to C-45).

1. A row for every recipient is committed, with the bytes that will be sent.
2. Every open row is tried, as an effect of the engine: intent, send, mark; on
   a retry it is read again and settled first. One bad recipient stops nobody.
3. What a retry may help is retried. Before the stage ends for good, every send
   in doubt is looked up once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.apps.review import deliveries, settling
from penstock.apps.review.ledger import DeliveryLedger, NotOpen
from penstock.apps.review.settling import Way
from penstock.apps.review.storing import stored
from penstock.apps.review.writing import write_missing, write_one
from penstock.contract.classify import Failure, classify
from penstock.contract.errors import EffectBusy, EffectUncertain, Failed, LeaseLost, NotPerformed
from penstock.contract.failures import FailureClass
from penstock.engine.effects import Absent, Found

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from penstock.apps.review.application import Reviews
    from penstock.apps.review.deliveries import Delivery
    from penstock.apps.review.models import ReviewArgs
    from penstock.channels.port import Channel
    from penstock.engine.effects import Settled
    from penstock.engine.job import Job
    from penstock.store.connect import Pooled

    T = TypeVar("T")

EFFECT: Final = "delivery"
# About this recipient, and a retry does not help. Credentials, quota and settings are nobody's fault here.
REFUSALS: Final = frozenset(
    {
        FailureClass.RECIPIENT_REJECTED,
        FailureClass.NOT_FOUND,
        FailureClass.PAYLOAD_REJECTED,
        FailureClass.POLICY_REJECTED,
        FailureClass.SCHEMA_INVALID,
    }
)


async def notify(reviews: Reviews, job: Job, args: ReviewArgs) -> dict[str, Any]:
    """The handler of the stage; returns when every required recipient was told or excused (N-18)."""
    await Notification(reviews, job, args.review_id).tell_everybody()
    return {"review_id": str(args.review_id)}


@dataclass(frozen=True, slots=True)
class Failing:
    """A try that failed and left its row as it was."""

    row: Delivery
    error: Exception
    failure: Failure


@dataclass(slots=True)
class Round:
    """What came of the tries of one attempt."""

    tried: set[UUID] = field(default_factory=set)
    failing: list[Failing] = field(default_factory=list)
    busy: EffectBusy | None = None

    def later(self) -> list[Exception]:
        """Failures that a retry may help."""
        return [one.error for one in self.failing if one.failure.retryable]

    def final(self) -> list[Exception]:
        """Failures that it does not, of recipients without whom the job cannot end well."""
        return [one.error for one in self.failing if one.row.required and not one.failure.retryable]


class Notification:
    """One attempt of the stage."""

    def __init__(self, reviews: Reviews, job: Job, review_id: UUID) -> None:
        self._reviews = reviews
        self._job = job
        self._review_id = review_id

    async def tell_everybody(self) -> None:
        """Try everything that is open, then decide how the attempt ends."""
        if self._job.root_job_id != self._job.job_id:
            await self._store(lambda db: deliveries.open_again(db, self._review_id, self._job.job_id))
        await self._store(lambda db: write_missing(db, self._reviews.channels, self._review_id))
        tries = Round()
        while rows := [row for row in await self._rows() if row.open and row.delivery_id not in tries.tried]:
            for row in rows:
                await self._try(row, tries)
        await self._conclude(tries)

    # ------------------------------------------------------------------- one recipient

    async def _try(self, row: Delivery, tries: Round) -> None:
        """Tell one recipient; what fails is kept for the end, and the others go on (C-44)."""
        tries.tried.add(row.delivery_id)
        try:
            await self._tell(self._reviews.channels.get(row.channel), row)
        except LeaseLost:
            raise
        except EffectBusy as busy:
            tries.busy = busy
        except (EffectUncertain, NotOpen):
            pass  # the row says what it is now: held, or settled by somebody else
        except Exception as error:
            failure = classify(error, idempotent=True, now=datetime.now(UTC))
            if failure.error_class in REFUSALS and not failure.retryable:
                await self._refused(row, str(failure.error_class))
            else:
                await self._store(lambda db: deliveries.note_error(db, row.delivery_id, str(failure.error_class)))
                tries.failing.append(Failing(row, error, failure))

    async def _tell(self, channel: Channel, row: Delivery) -> None:
        payload = row.payload
        if payload is None:
            payload = await self._store(lambda db: write_one(db, channel, row))
        ledger = DeliveryLedger(row)
        settled_by = settling.way(channel, row)

        async def send(token: str) -> dict[str, str]:
            receipt = await channel.send(row.address, token, payload)
            return {"notification_id": receipt.notification_id}

        await self._job.effect(
            EFFECT,
            key=row.token,
            token=row.token,
            perform=send,
            settle=self._settler(channel, ledger, settled_by),
            repeat_when_uncertain=settled_by is Way.REPEAT,
            ledger=ledger,
        )

    def _settler(
        self, channel: Channel, ledger: DeliveryLedger, settled_by: Way
    ) -> Callable[[str], Awaitable[Settled]] | None:
        """What is asked about an earlier send; None: there is nobody to ask."""

        async def note(outcome: str) -> None:
            delivery_id, job_id = ledger.row.delivery_id, self._job.job_id
            await self._store(lambda db: deliveries.note_lookup(db, delivery_id, job_id, outcome))

        async def look_up(_token: str) -> Settled:
            receipt = await settling.look_up(channel, ledger.row, note)
            if receipt is None:
                return Absent()
            return Found({"notification_id": receipt.notification_id, "confirmed": True})

        async def replay(_token: str) -> Settled:
            return Absent()  # the send that follows, under the same key, is the question

        return {Way.LOOK_UP: look_up, Way.REPLAY: replay}.get(settled_by)

    async def _refused(self, row: Delivery, code: str) -> None:
        """A refusal is final for the recipient, but for an earlier send that may have come through (C-45).

        A replay under the key of that send would have met it, so its refusal
        is an answer about both.
        """
        now = next(one for one in await self._rows() if one.delivery_id == row.delivery_id)
        if now.in_doubt and settling.way(self._reviews.channels.get(row.channel), row) is not Way.REPLAY:
            await self._settle_once(now, code)
        else:
            await self._fail(now, code, proven_absent=now.in_doubt)

    # -------------------------------------------------------------------------- the end

    async def _conclude(self, tries: Round) -> None:
        """Return when the job may succeed; else raise what this attempt failed of.

        Before the stage ends for good every send in doubt is looked up once,
        which may turn the end around (C-45, N-26).
        """
        if tries.busy is not None:
            raise tries.busy
        if tries.later() and not tries.final() and not self._job.last_attempt:
            raise _together(tries.later())
        for row in await self._rows():
            if row.open and row.in_doubt:
                await self._settle_once(row, row.last_error_code)
        rows = await self._rows()
        absent = [row for row in rows if row.required and not row.told]
        if absent:
            raise self._end(tries, absent)
        for row in rows:
            if row.open:  # nobody will try an optional one again
                await self._fail(row, row.last_error_code)

    async def _settle_once(self, row: Delivery, code: str | None) -> None:
        """Look a send in doubt up: told, failed, or left to a sweep and a person when nobody answers.

        It is the effect itself, with a send that refuses to be made.
        """
        try:
            await self._look_once(self._reviews.channels.get(row.channel), row)
        except (LeaseLost, EffectBusy):
            raise
        except NotPerformed:
            await self._fail(row, code, proven_absent=True)
        except Exception:
            await self._store(lambda db: deliveries.hold(db, row.delivery_id, code))

    async def _look_once(self, channel: Channel, row: Delivery) -> None:
        if not settling.can_look_up(channel, row.notification_id):
            raise EffectUncertain("nothing can be found out about this send")
        ledger = DeliveryLedger(row, sends=False)
        settle = self._settler(channel, ledger, Way.LOOK_UP)
        await self._job.effect(EFFECT, key=row.token, token=row.token, perform=_not_again, settle=settle, ledger=ledger)

    async def _fail(self, row: Delivery, code: str | None, *, proven_absent: bool = False) -> None:
        await self._store(lambda db: deliveries.fail(db, row.delivery_id, code, proven_absent=proven_absent))

    def _end(self, tries: Round, absent: list[Delivery]) -> Exception:
        ids = ", ".join(str(row.delivery_id) for row in absent)
        if tries.final() or tries.later():
            return _together(tries.final() or tries.later())
        if any(row.status == "reconciling" for row in absent):
            return EffectUncertain(f"deliveries {ids} may have been sent; see `penstock deliveries list`")
        return Failed(FailureClass.RECIPIENT_REJECTED, f"deliveries {ids} failed; mend or waive them, then replay")

    # ----------------------------------------------------------------------------- rows

    async def _rows(self) -> list[Delivery]:
        return await self._store(lambda db: deliveries.load(db, self._review_id))

    async def _store(self, work: Callable[[Pooled], Awaitable[T]]) -> T:
        return await stored(self._reviews, work)


async def _not_again(_token: str) -> None:
    raise NotPerformed("this attempt is the last; nothing is sent any more")


def _together(errors: list[Exception]) -> Exception:
    """The worst of them counts, with the longest wait that any of them asks for."""
    return errors[0] if len(errors) == 1 else ExceptionGroup("deliveries", errors)
