"""The orchestrator: the only one that takes messages, and the only one that enqueues rewrites (A-35, L-18).

    check → classify → locales and lane → snapshots → request → route → enqueue, in a savepoint

Everything from the snapshots on is one transaction. What goes wrong in the
savepoint, or in the choice of a route, fails the request that is stored by
then: the caller learns `rewrite_unavailable` and nothing else, the operator
learns why (A-38). Refusals come before: they write nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.apps.rewrite import repository
from penstock.apps.rewrite.classifier import classify_or_fallback
from penstock.apps.rewrite.homes import HomeErased, home_key
from penstock.apps.rewrite.hydration import Unit
from penstock.apps.rewrite.locales import lane_of, source_locale, target_locale
from penstock.apps.rewrite.models import JOB_TYPE, UNAVAILABLE, RewriteRequestV1, Surface
from penstock.apps.rewrite.prompts import prompt
from penstock.apps.rewrite.refusals import (
    IdempotencyConflict,
    RecipientRefused,
    SenderRefused,
    checked_delay,
    checked_key,
    checked_surface,
    checked_text,
    only_recipient,
)
from penstock.apps.rewrite.repository import NewRequest, Party
from penstock.apps.rewrite.router import RoutingInput, route
from penstock.apps.rewrite.statements import sql
from penstock.contract.failure_signals import sqlstate
from penstock.telemetry.logs import log

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.apps.rewrite.application import Rewrites
    from penstock.apps.rewrite.envelope import HomeKey
    from penstock.apps.rewrite.models import ClassifierResultV1, RoutingDecisionV1
    from penstock.store.claims import Transaction


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a message: taken, or failed with the one code that anybody outside is told (R-23)."""

    rewrite_request_id: UUID
    accepted: bool
    failure_code: str | None = None
    repeated: bool = False  # the idempotency key was known, and this is what it stands for


@dataclass(frozen=True, slots=True)
class Output:
    """What was rewritten, and whom it may be delivered to: the snapshot's members and nobody else (A-70)."""

    rewrite_request_id: UUID
    recipient_user_ids: tuple[UUID, ...]
    rewritten_text: str = field(repr=False)
    output_locale: str
    rewrite_completed_at: datetime
    sender_reveal_at: datetime | None


@dataclass(frozen=True, slots=True)
class Message:
    """One message whose form has been checked."""

    home_id: UUID
    sender_user_id: UUID
    recipient_user_id: UUID
    text: str = field(repr=False)
    surface: Surface
    reveal_delay: timedelta | None
    idempotency_key: str | None

    def fingerprint(self, key: HomeKey) -> bytes:
        """Equal for the same message, and nothing to anybody who lacks the home's key."""
        delay = "" if self.reveal_delay is None else str(self.reveal_delay.total_seconds())
        parts = (self.recipient_user_id.bytes, self.surface.encode(), delay.encode(), self.text.encode())
        return key.fingerprint(*parts)


class Orchestrator:
    """Takes messages, as penstock_orchestrator."""

    def __init__(self, rewrites: Rewrites) -> None:
        self._rewrites = rewrites

    async def submit_rewrite(
        self,
        *,
        home_id: UUID,
        sender_user_id: UUID,
        recipient_user_ids: Collection[UUID],
        text: str,
        surface: Surface | str,
        reveal_delay: timedelta | None = None,
        idempotency_key: str | None = None,
    ) -> Submitted:
        """Take one message for one recipient; returns when its job is stored, long before it is rewritten (Q-83).

        A message that cannot be taken raises `RewriteRefused` and leaves
        nothing behind. The same *idempotency_key* with the same message
        returns the request that it made; with another one it raises
        `IdempotencyConflict`.
        """
        message = Message(
            home_id,
            sender_user_id,
            only_recipient(recipient_user_ids, sender_user_id),
            checked_text(text),
            checked_surface(surface),
            checked_delay(reveal_delay),
            checked_key(idempotency_key),
        )
        async with self._rewrites.in_home(home_id) as connection:
            known = await self._known(connection, message, await self._admitted(connection, message))
        if known is not None:
            return known
        advice = await classify_or_fallback(self._rewrites.classifier, message.text)
        submitted, reason = await self._take(message, advice)
        if reason is not None:
            _unavailable(submitted.rewrite_request_id, reason)
        return submitted

    async def read_output(self, home_id: UUID, rewrite_request_id: UUID) -> Output | None:
        """What was rewritten, for whoever delivers it (R-10); None until the request is completed."""
        async with self._rewrites.in_home(home_id) as connection:
            try:
                key = await home_key(connection, self._rewrites.keyring, home_id)
            except HomeErased:
                return None
            found = await repository.read_output(connection, key, home_id, rewrite_request_id)
        if found is None:
            return None
        return Output(
            rewrite_request_id,
            found.recipient_user_ids,
            found.response.rewritten_text,
            found.response.output_locale,
            found.rewrite_completed_at,
            found.sender_reveal_at,
        )

    async def _take(self, message: Message, advice: ClassifierResultV1) -> tuple[Submitted, str | None]:
        """Store the request and enqueue its job, in one transaction; the second part says what went wrong inside it.

        Who is in the home is read again here, so that what is frozen is of one
        moment (A-70). Two calls with one key wait for each other, and the
        second finds the request of the first.
        """
        async with self._rewrites.app.transaction() as tx:
            if message.idempotency_key is not None:
                await tx.execute(
                    sql("requests/lock_key"), message.home_id, message.sender_user_id, message.idempotency_key
                )
            admitted = await self._admitted(tx, message)
            known = await self._known(tx, message, admitted)
            if known is not None:
                return known, None
            new = _decided(message, advice, admitted, self._delay(message))
            await repository.insert_request(tx, admitted.key, new)
            reason = await self._enqueue(tx, new)
            if reason is None:
                return Submitted(new.rewrite_request_id, accepted=True), None
            await repository.mark_failed(tx, new.home_id, new.rewrite_request_id)
            await tx.execute(sql("requests/report_unavailable"), new.rewrite_request_id, reason)
            return Submitted(new.rewrite_request_id, accepted=False, failure_code=UNAVAILABLE), reason

    async def _enqueue(self, tx: Transaction, new: NewRequest) -> str | None:
        """Route and enqueue in a savepoint; what goes wrong rolls back to it and is told as a code (C-53)."""
        try:
            async with tx.transaction():
                decision = self._route(new.rewrite_request)
                unit = Unit(
                    rewrite_request_id=new.rewrite_request_id,
                    recipient_user_id=new.recipient_user_id,
                    home_id=new.home_id,
                )
                job_id = await self._rewrites.app.enqueue(
                    JOB_TYPE, unit, key=unit.key, attempts=decision.max_retries + 1, connection=tx
                )
                await repository.insert_job(tx, new.home_id, new.rewrite_request_id, job_id, decision)
                await repository.mark_queued(tx, new.home_id, new.rewrite_request_id)
        except Exception as error:
            if tx.is_closed():
                raise  # nothing was committed, and nothing can be
            return sqlstate(error) or type(error).__name__
        return None

    def _route(self, asked: RewriteRequestV1) -> RoutingDecisionV1:
        """Where it goes, decided by words of closed lists alone (Q-88); a version that nobody has is told now."""
        given = RoutingInput(
            surface=asked.surface,
            lane=asked.lane,
            source_locale=asked.source_locale,
            target_locale=asked.target_locale,
            rewrite_strength=asked.rewrite_strength,
        )
        decision = route(given, self._rewrites.table)
        prompt(decision.prompt_version)
        return decision

    async def _admitted(self, connection: Transaction, message: Message) -> _Admitted:
        """Sender and recipient, if both are members of the home; strangers learn nothing else."""
        party = await repository.load_party(
            connection, message.home_id, message.sender_user_id, message.recipient_user_id
        )
        try:
            key = await home_key(connection, self._rewrites.keyring, message.home_id, create=True)
        except HomeErased:
            raise SenderRefused("home_unknown") from None
        if not party.sender_is_member:
            raise SenderRefused("sender_stranger")
        if not party.recipient_is_member:
            raise RecipientRefused("recipient_stranger")
        return _Admitted(party, key)

    async def _known(self, connection: Transaction, message: Message, admitted: _Admitted) -> Submitted | None:
        """What the idempotency key stands for; with another message behind it, it stands for nothing."""
        if message.idempotency_key is None:
            return None
        found = await repository.find_by_key(
            connection, message.home_id, message.sender_user_id, message.idempotency_key
        )
        if found is None:
            return None
        if found.fingerprint != message.fingerprint(admitted.key):
            raise IdempotencyConflict
        failure = None if found.accepted else found.failure_code
        return Submitted(found.rewrite_request_id, found.accepted, failure, repeated=True)

    def _delay(self, message: Message) -> timedelta | None:
        seconds = self._rewrites.app.settings.rewrite_reveal_delay_seconds
        if message.reveal_delay is not None or seconds is None:
            return message.reveal_delay
        return timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class _Admitted:
    """Two members of a home, and its key."""

    party: Party
    key: HomeKey


def _decided(message: Message, advice: ClassifierResultV1, admitted: _Admitted, delay: timedelta | None) -> NewRequest:
    """Everything that is fixed from now on; of the classifier's advice only what the rules take (L-20)."""
    party = admitted.party
    source = source_locale(advice, party.sender_locale)
    target = target_locale(party.recipient_locale)
    request = RewriteRequestV1(
        message_text=message.text,
        surface=message.surface,
        rewrite_strength=advice.rewrite_strength,
        source_locale=source,
        target_locale=target,
        lane=lane_of(source, target),
        topics=advice.topics,
        intent=advice.intent,
        preferences=party.preferences(admitted.key),
    )
    return NewRequest(
        message.home_id,
        message.sender_user_id,
        message.recipient_user_id,
        request,
        advice,
        source_locale_raw=party.sender_locale,
        target_locale_raw=party.recipient_locale,
        reveal_delay=delay,
        idempotency_key=message.idempotency_key,
        fingerprint=None if message.idempotency_key is None else message.fingerprint(admitted.key),
    )


def _unavailable(rewrite_request_id: UUID, reason: str) -> None:
    """A request could not be enqueued: which one and why, in codes. The caller is not told (A-38)."""
    log.error("rewrite_unavailable", rewrite_request_id=str(rewrite_request_id), job_type=JOB_TYPE, code=reason)
