"""The rows of a rewrite: requests with what is frozen for them, details of jobs, slots.

Everything here runs in a transaction of the caller's, in the home that the
call names; rows of other homes are not there for it. Text comes and goes
sealed with the key of that home, bound to the row that it stands in.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.apps.rewrite.homes import enter_home, opened_preferences, sealed_terms
from penstock.apps.rewrite.models import (
    ClassifierResultV1,
    Lane,
    PreferencesV1,
    RewriteRequestV1,
    RoutingDecisionV1,
)
from penstock.apps.rewrite.slots import StoredOutput, fill_slot, note_refusal, read_output, slot_filled
from penstock.apps.rewrite.statements import sql
from penstock.contract.keys import uuid7
from penstock.contract.statuses import Status

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

    from penstock.apps.rewrite.envelope import HomeKey
    from penstock.store.claims import Transaction
    from penstock.store.connect import Record

__all__ = [
    "Frozen", "KnownRequest", "LoadedJob", "NewRequest", "Party", "StoredOutput", "complete_request", "enter_home",
    "fill_slot", "find_by_key", "hold_unit", "insert_job", "insert_request", "load_job", "load_party", "mark_failed",
    "mark_queued", "note_refusal", "read_output", "slot_filled",
]  # fmt: skip


# --------------------------------------------------------------- before the request


@dataclass(frozen=True, slots=True)
class Party:
    """Sender and recipient as the home knows them; locales are raw, as their profiles have them."""

    sender_is_member: bool
    sender_locale: str | None
    recipient_is_member: bool
    recipient_locale: str | None
    tone: str | None
    recipient_user_id: UUID
    blocked_terms: bytes | None = field(repr=False)  # sealed

    def preferences(self, key: HomeKey) -> PreferencesV1:
        """What the recipient wishes now, for the snapshot."""
        place = f"preferences/{self.recipient_user_id}"
        return opened_preferences(key, self.tone, self.blocked_terms, place=place)


async def load_party(connection: Transaction, home_id: UUID, sender_user_id: UUID, recipient_user_id: UUID) -> Party:
    """Who is to write to whom; a stranger is told as such and nothing else is told of them."""
    await enter_home(connection, home_id)
    rows = await connection.fetch(sql("homes/read_party"), home_id, sender_user_id, recipient_user_id)
    found = {row["user_id"]: row for row in rows}
    sender, recipient = found.get(sender_user_id), found.get(recipient_user_id)
    return Party(
        sender_is_member=sender is not None,
        sender_locale=sender["locale_raw"] if sender else None,
        recipient_is_member=recipient is not None,
        recipient_locale=recipient["locale_raw"] if recipient else None,
        tone=recipient["tone"] if recipient else None,
        recipient_user_id=recipient_user_id,
        blocked_terms=recipient["blocked_terms"] if recipient else None,
    )


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """What an idempotency key stands for."""

    rewrite_request_id: UUID
    fingerprint: bytes = field(repr=False)
    status: str
    failure_code: str | None
    accepted: bool  # it got a job, whatever became of that later


async def find_by_key(
    connection: Transaction, home_id: UUID, sender_user_id: UUID, idempotency_key: str
) -> KnownRequest | None:
    """The request that this sender made under this key, if there is one."""
    await enter_home(connection, home_id)
    row = await connection.fetchrow(sql("requests/find_by_key"), home_id, sender_user_id, idempotency_key)
    return None if row is None else KnownRequest(**row)


# --------------------------------------------------------------------- the request


@dataclass(frozen=True, slots=True)
class NewRequest:
    """One message and everything that was decided about it."""

    home_id: UUID
    sender_user_id: UUID
    recipient_user_id: UUID
    rewrite_request: RewriteRequestV1 = field(repr=False)
    classifier_result: ClassifierResultV1
    source_locale_raw: str | None = None
    target_locale_raw: str | None = None
    reveal_delay: timedelta | None = None
    idempotency_key: str | None = None
    fingerprint: bytes | None = field(default=None, repr=False)
    rewrite_request_id: UUID = field(default_factory=uuid7)


@dataclass(frozen=True, slots=True)
class Frozen:
    """A request that is stored; nothing of what was decided for it changes any more."""

    rewrite_request_id: UUID
    recipient_snapshot_id: UUID
    recipient_preference_snapshot_id: UUID
    created_at: datetime
    sender_reveal_at: datetime | None


async def insert_request(connection: Transaction, key: HomeKey, new: NewRequest) -> Frozen:
    """Store a request as `received`, with both snapshots, in one statement; the text is sealed before it leaves."""
    await enter_home(connection, new.home_id)
    request, preferences_id = new.rewrite_request, uuid7()
    text = request.model_dump_json(by_alias=True).encode()
    row = await connection.fetchrow(
        sql("requests/insert"),
        new.rewrite_request_id,
        new.home_id,
        new.sender_user_id,
        new.recipient_user_id,
        uuid7(),
        preferences_id,
        str(request.surface),
        str(request.rewrite_strength),
        request.source_locale,
        request.target_locale,
        new.source_locale_raw,
        new.target_locale_raw,
        str(request.lane),
        new.classifier_result.model_dump_json(),
        key.seal(text, place=f"rewrite_requests/{new.rewrite_request_id}"),
        request.preferences.tone,
        sealed_terms(key, request.preferences, place=f"recipient_preference_snapshots/{preferences_id}"),
        new.idempotency_key,
        new.fingerprint,
        new.reveal_delay,
    )
    assert row is not None  # noqa: S101 - an insert that returns has one row, or raises
    return Frozen(**row)


async def insert_job(
    connection: Transaction, home_id: UUID, rewrite_request_id: UUID, job_id: UUID, decision: RoutingDecisionV1
) -> bool:
    """Store the detail of the job of a request; False when its unit has one already, which then stands (A-37)."""
    await enter_home(connection, home_id)
    route = decision.model_dump_json()
    return bool(await connection.fetchval(sql("jobs/insert"), job_id, rewrite_request_id, route))


async def mark_queued(connection: Transaction, home_id: UUID, rewrite_request_id: UUID) -> bool:
    """`received` → `queued`; False when it is not received any more."""
    await enter_home(connection, home_id)
    return bool(await connection.fetchval(sql("requests/mark_queued"), rewrite_request_id))


async def mark_failed(connection: Transaction, home_id: UUID, rewrite_request_id: UUID) -> bool:
    """Fail a request that has no job, with the one code for everybody outside (A-38); False when it has ended."""
    await enter_home(connection, home_id)
    return bool(await connection.fetchval(sql("requests/mark_failed"), rewrite_request_id))


# ----------------------------------------------------------------------- execution


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """One execution, as it was frozen: detail, request, preference snapshot and job (C-39)."""

    job_id: UUID
    rewrite_request_id: UUID
    home_id: UUID
    sender_user_id: UUID
    recipient_user_id: UUID
    recipient_snapshot_id: UUID
    recipient_preference_snapshot_id: UUID
    source_locale: str
    target_locale: str
    lane: Lane
    routing_decision: RoutingDecisionV1
    classifier_result: ClassifierResultV1
    request_status: str
    status: Status
    attempt_count: int
    max_attempts: int
    claim_seq: int
    provider_batch_id: str | None
    slot_filled: bool
    tone: str | None
    rewrite_request: bytes = field(repr=False)  # sealed
    blocked_terms: bytes | None = field(repr=False)  # sealed

    def request(self, key: HomeKey) -> RewriteRequestV1:
        """The request in memory."""
        text = key.open(self.rewrite_request, place=f"rewrite_requests/{self.rewrite_request_id}")
        return RewriteRequestV1.model_validate_json(text)

    def preferences(self, key: HomeKey) -> PreferencesV1:
        """The recipient's wishes as they were, from their snapshot (L-17)."""
        place = f"recipient_preference_snapshots/{self.recipient_preference_snapshot_id}"
        return opened_preferences(key, self.tone, self.blocked_terms, place=place)


async def load_job(connection: Transaction, job_id: UUID, home_id: UUID) -> LoadedJob | None:
    """The job of *home_id*; None when this home has no such job."""
    await enter_home(connection, home_id)
    row = await connection.fetchrow(sql("jobs/load"), job_id)
    return None if row is None else _loaded(row)


def _loaded(row: Record) -> LoadedJob:
    fields = dict(row)
    fields["lane"] = Lane(row["lane"])
    fields["status"] = Status(row["status"])
    fields["routing_decision"] = RoutingDecisionV1.model_validate(json.loads(row["routing_decision"]))
    fields["classifier_result"] = ClassifierResultV1.model_validate(json.loads(row["classifier_result"]))
    return LoadedJob(**fields)


async def hold_unit(
    connection: Transaction, job_id: UUID, claim_seq: int, rewrite_request_id: UUID, recipient_user_id: UUID
) -> bool:
    """Lock the job of this claim and its unit until the transaction ends; False when the claim was lost."""
    found = await connection.fetchval(sql("jobs/hold"), job_id, claim_seq, rewrite_request_id, recipient_user_id)
    return bool(found)


async def complete_request(connection: Transaction, home_id: UUID, rewrite_request_id: UUID) -> bool:
    """`queued` → `completed`, with its time; False when it was not queued. Needs the output (A-67)."""
    await enter_home(connection, home_id)
    return bool(await connection.fetchval(sql("requests/complete"), rewrite_request_id))
