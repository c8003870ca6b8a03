"""Slots: the one place of a unit's output, filled once and read by whoever delivers it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.apps.rewrite.homes import enter_home
from penstock.apps.rewrite.models import RewriteResponseV1
from penstock.apps.rewrite.statements import sql

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from penstock.apps.rewrite.envelope import HomeKey
    from penstock.store.claims import Transaction


async def slot_filled(
    connection: Transaction, home_id: UUID, rewrite_request_id: UUID, recipient_user_id: UUID
) -> bool:
    """Whether the unit has its output (A-60)."""
    await enter_home(connection, home_id)
    return bool(await connection.fetchval(sql("outputs/filled"), rewrite_request_id, recipient_user_id))


async def fill_slot(
    connection: Transaction,
    key: HomeKey,
    *,
    job_id: UUID,
    rewrite_request_id: UUID,
    recipient_user_id: UUID,
    response: RewriteResponseV1,
    eval_version: str,
    lexicon_version: str,
    provider_item_completed_at: datetime | None = None,
) -> bool:
    """Store the output of a unit, sealed; False when the slot is filled, which then stays as it is (A-75)."""
    await enter_home(connection, key.home_id)
    text = response.model_dump_json(by_alias=True).encode()
    sealed = key.seal(text, place=_slot(rewrite_request_id, recipient_user_id))
    return bool(
        await connection.fetchval(
            sql("outputs/fill"),
            rewrite_request_id,
            recipient_user_id,
            key.home_id,
            job_id,
            response.output_locale,
            sealed,
            eval_version,
            lexicon_version,
            provider_item_completed_at,
        )
    )


async def note_refusal(
    connection: Transaction,
    home_id: UUID,
    job_id: UUID,
    *,
    attempt: int,
    code: str,
    eval_version: str,
    lexicon_version: str,
) -> None:
    """Remember that these versions refused an answer, for the report of regressions; nothing of the answer."""
    await enter_home(connection, home_id)
    found = job_id, attempt, home_id, code, eval_version, lexicon_version
    await connection.execute(sql("outputs/note_refusal"), *found)


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """What was rewritten, and whom it may be delivered to: the snapshot's members and nobody else (A-70)."""

    recipient_user_ids: tuple[UUID, ...]
    response: RewriteResponseV1 = field(repr=False)
    rewrite_completed_at: datetime
    sender_reveal_at: datetime | None


async def read_output(
    connection: Transaction, key: HomeKey, home_id: UUID, rewrite_request_id: UUID
) -> StoredOutput | None:
    """The output of a completed request; None for any other."""
    await enter_home(connection, home_id)
    row = await connection.fetchrow(sql("outputs/read"), rewrite_request_id)
    if row is None:
        return None
    text = key.open(row["rewrite_response"], place=_slot(rewrite_request_id, row["recipient_user_id"]))
    return StoredOutput(
        tuple(row["recipient_user_ids"]),
        RewriteResponseV1.model_validate_json(text),
        row["rewrite_completed_at"],
        row["sender_reveal_at"],
    )


def _slot(rewrite_request_id: UUID, recipient_user_id: UUID) -> str:
    return f"rewrite_outputs/{rewrite_request_id}/{recipient_user_id}"
