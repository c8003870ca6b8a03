"""What the vault speaks of: items with their statuses, what is found in them, and the jobs of the outbox."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

JOB_TYPE: Final = "enrichment"
LOG_IDS: Final = ("item_id",)
LONGEST_TITLE: Final = 200
LONGEST_SUMMARY: Final = 2_000
LONGEST_TAG: Final = 50
LONGEST_NAME: Final = 200
MOST_TAGS: Final = 12
MOST_ENTITIES: Final = 30


class ItemKind(StrEnum):
    """What somebody saved."""

    TEXT = "text"
    LINK = "link"
    NOTE = "note"


class ItemStatus(StrEnum):
    """How far an item is. The way: enriched, shown to its owner, confirmed; it can be discarded until then."""

    ENRICHING = "ENRICHING"
    READY_TO_CONFIRM = "READY_TO_CONFIRM"
    CONFIRMED = "CONFIRMED"
    DISCARDED = "DISCARDED"
    ENRICHMENT_FAILED = "ENRICHMENT_FAILED"  # for good; it can be asked for again


class EntityKind(StrEnum):
    """What a name stands for."""

    PERSON = "person"
    ORGANIZATION = "organization"
    PLACE = "place"
    PRODUCT = "product"
    EVENT = "event"
    WORK = "work"  # a book, a song, a film, a law
    OTHER = "other"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Entity(_Frozen):
    """Somebody or something that the item names."""

    name: str
    kind: EntityKind


class Enrichment(_Frozen):
    """What was found in an item, beside its title."""

    summary: str
    tags: tuple[str, ...]
    language: str  # a code of two or three letters; `und` where nobody can tell
    entities: tuple[Entity, ...]


class EnrichmentArgs(_Frozen):
    """The payload of a job: an id, and never a text."""

    item_id: UUID


@dataclass(frozen=True, slots=True)
class Item:
    """One saved item, as its owner sees it."""

    id: UUID
    owner_id: UUID
    kind: ItemKind
    content: str = field(repr=False)
    status: ItemStatus
    title: str | None = field(repr=False)
    enrichment: Enrichment | None = field(repr=False)
    failure_code: str | None
    enrichment_round: int
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Item:
        """The item of a row of `vault.items`."""
        found = row["enrichment"]
        return cls(
            id=UUID(str(row["id"])),
            owner_id=UUID(str(row["owner_id"])),
            kind=ItemKind(row["kind"]),
            content=row["content"],
            status=ItemStatus(row["status"]),
            title=row["title"],
            enrichment=None if found is None else Enrichment.model_validate(json.loads(found)),
            failure_code=row["failure_code"],
            enrichment_round=row["enrichment_round"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
        )


@dataclass(frozen=True, slots=True)
class ListedItem:
    """An item in a list: how it stands, and the beginning of what was saved."""

    id: UUID
    kind: ItemKind
    status: ItemStatus
    title: str | None = field(repr=False)
    preview: str = field(repr=False)
    failure_code: str | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> ListedItem:
        """The item of a row of a list."""
        return cls(
            id=UUID(str(row["id"])),
            kind=ItemKind(row["kind"]),
            status=ItemStatus(row["status"]),
            title=row["title"],
            preview=row["preview"],
            failure_code=row["failure_code"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
        )


@dataclass(frozen=True, slots=True)
class SystemItem:
    """What a worker sees of an item: its text, and nothing of its owner."""

    id: UUID
    kind: ItemKind
    content: str = field(repr=False)
    status: ItemStatus
    enrichment_round: int

    @property
    def waits(self) -> bool:
        """Whether there is something to enrich; otherwise it was enriched or discarded before (D-53)."""
        return self.status is ItemStatus.ENRICHING


@dataclass(frozen=True, slots=True)
class OutboxJob:
    """A job that was put in for an item: the row of the outbox, by the names that the outbox has."""

    id: UUID
    item_id: str
    job_type: str
    enrichment_round: int
