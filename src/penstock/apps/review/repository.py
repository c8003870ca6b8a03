"""The rows of a review: what was asked for, what was fetched, what the critic has answered.

Every function takes a connection first and runs in the caller's transaction,
if there is one. What is stored once is stored for good: a second time changes
nothing, so that a stage can begin again at any point.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.apps.review.models import ChannelKind, Facts, Finding, Recipient, Skipped
from penstock.apps.review.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.claims import Db
    from penstock.store.connect import Record

# -------------------------------------------------------------- what was asked for


@dataclass(frozen=True, slots=True)
class StoredReview:
    """What was asked for; nothing of it ever changes."""

    review_id: UUID
    changelist_id: str
    review_version: int
    label: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewReview:
    """A review that is to be stored, with its job and everybody who is to be told."""

    review_id: UUID
    job_id: UUID
    changelist_id: str
    review_version: int
    recipients: tuple[Recipient, ...] = field(repr=False)
    label: str | None = None
    rerun: bool = False


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a changelist that somebody has asked for."""

    review_id: UUID
    review_version: int
    succeeded: bool


async def lock(db: Db, name: str) -> None:
    """Wait until nobody else makes a review under *name*, and keep others out until the transaction ends."""
    await db.execute(sql("reviews/lock"), name)


async def find_by_key(db: Db, idempotency_key: str) -> UUID | None:
    """The review that this key stands for."""
    found: UUID | None = await db.fetchval(sql("reviews/find_by_key"), idempotency_key)
    return found


async def find_versions(db: Db, changelist_id: str) -> list[Version]:
    """Every version of the changelist, the lowest first."""
    return [Version(*row) for row in await db.fetch(sql("reviews/find_versions"), changelist_id)]


async def insert_review(db: Db, new: NewReview) -> None:
    """Store a review with its recipients."""
    facts = new.review_id, new.job_id, new.changelist_id, new.review_version, new.label, new.rerun
    await db.execute(sql("reviews/insert"), *facts)
    named = new.recipients
    await db.execute(
        sql("reviews/insert_recipients"),
        new.review_id,
        [one.recipient for one in named],
        [str(one.channel) for one in named],
        [one.address for one in named],
        [one.required for one in named],
    )


async def insert_key(db: Db, idempotency_key: str, review_id: UUID) -> None:
    """From now on the key stands for this review."""
    await db.execute(sql("reviews/insert_key"), idempotency_key, review_id)


async def load_review(db: Db, review_id: UUID) -> StoredReview | None:
    """What was asked for."""
    row = await db.fetchrow(sql("reviews/load"), review_id)
    return None if row is None else StoredReview(**row)


async def load_recipients(db: Db, review_id: UUID) -> tuple[Recipient, ...]:
    """Everybody who is to be told, in a stable order."""
    rows = await db.fetch(sql("reviews/load_recipients"), review_id)
    return tuple(Recipient(channel=ChannelKind(row[0]), address=row[1], required=row[2]) for row in rows)


async def read_row(db: Db, review_id: UUID) -> Record | None:
    """The review and how it stands, as one row."""
    return await db.fetchrow(sql("reviews/read"), review_id)


async def read_deliveries(db: Db, review_id: UUID) -> list[dict[str, Any]]:
    """Who is told and how far that is."""
    return [dict(row) for row in await db.fetch(sql("reviews/read_deliveries"), review_id)]


async def list_rows(db: Db, changelist_id: str | None, limit: int) -> list[Record]:
    """The newest reviews and how they stand."""
    return await db.fetch(sql("reviews/list"), changelist_id, limit)


# ------------------------------------------------------------------- what was fetched


@dataclass(frozen=True, slots=True)
class Artifact:
    """The changelist as it was fetched, and how it is cut."""

    revision: str
    facts: Facts
    diff: str = field(repr=False)
    skipped: tuple[Skipped, ...]
    part_tokens: int
    parts: int
    fetched_at: datetime | None = None


async def has_artifact(db: Db, review_id: UUID) -> bool:
    """Whether the changelist of the review was fetched."""
    return bool(await db.fetchval(sql("artifacts/there"), review_id))


async def store_artifact(db: Db, review_id: UUID, artifact: Artifact) -> bool:
    """Keep what was fetched; False when there is something already, which then stays."""
    skipped = json.dumps([one.model_dump() for one in artifact.skipped])
    return bool(
        await db.fetchval(
            sql("artifacts/store"),
            review_id,
            artifact.revision,
            artifact.facts.model_dump_json(),
            artifact.diff,
            skipped,
            artifact.part_tokens,
            artifact.parts,
        )
    )


async def load_artifact(db: Db, review_id: UUID) -> Artifact | None:
    """What was fetched for the review."""
    row = await db.fetchrow(sql("artifacts/load"), review_id)
    if row is None:
        return None
    return Artifact(
        row["revision"],
        Facts.model_validate_json(row["facts"]),
        row["diff"],
        tuple(Skipped(**one) for one in json.loads(row["skipped"])),
        row["part_tokens"],
        row["parts"],
        row["fetched_at"],
    )


# ------------------------------------------------------------- what the critic answered


@dataclass(frozen=True, slots=True)
class Answered:
    """The parts that have their answer, and everything that was found in them."""

    numbers: frozenset[int]
    findings: tuple[Finding, ...] = field(repr=False)
    dropped: int


async def store_part(
    db: Db,
    review_id: UUID,
    part: int,
    findings: Sequence[Finding],
    *,
    dropped: int,
    input_tokens: int = 0,
    output_tokens: int = 0,
) -> bool:
    """Keep the answer about one part; False when it has one already, which then stays."""
    found = json.dumps([one.model_dump(mode="json") for one in findings])
    facts = review_id, part, found, dropped, input_tokens, output_tokens
    return bool(await db.fetchval(sql("parts/store"), *facts))


async def load_parts(db: Db, review_id: UUID) -> Answered:
    """What has been answered so far."""
    rows = await db.fetch(sql("parts/load"), review_id)
    findings = [Finding.model_validate(one) for row in rows for one in json.loads(row["findings"])]
    ordered = tuple(sorted(findings, key=lambda one: one.place))
    return Answered(frozenset(row["part"] for row in rows), ordered, sum(row["dropped"] for row in rows))


async def bind_question(db: Db, job_id: UUID, claim_seq: int, review_id: UUID, part: int) -> int:
    """Remember that this claim asks about *part*; the answer is what it asks about, if it has asked before."""
    return int(await db.fetchval(sql("parts/bind"), job_id, claim_seq, review_id, part))


async def bound_question(db: Db, job_id: UUID, claim_seq: int) -> int | None:
    """The part that this claim has asked about."""
    found: int | None = await db.fetchval(sql("parts/bound"), job_id, claim_seq)
    return found
