"""What the parts of the review application hand to each other. No repr shows a word of code or of a finding."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

JOB_TYPE: Final = "review_processing"
FETCH: Final = "fetch"
LLM: Final = "llm"
NOTIFY: Final = "notify"
STAGES: Final = (FETCH, LLM, NOTIFY)
CHANGELIST: Final = re.compile(r"(?P<source>[a-z][a-z0-9_-]{0,49}):(?P<ref>[^\x00-\x1f\x7f]{1,240})")


class Strict(BaseModel):
    """Nothing is added, changed later or repeated in an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ChannelKind(StrEnum):
    """The channels that a recipient can name."""

    RESEND = "resend"
    SMTP = "smtp"
    WEBHOOK = "webhook"


class Recipient(Strict):
    """Somebody who is told. Required unless said otherwise (C-44)."""

    channel: ChannelKind
    address: Annotated[str, Field(min_length=1, max_length=500, repr=False)]
    required: bool = True

    @property
    def recipient(self) -> str:
        """Who this is, for the key of the delivery: trimmed and lower-cased (C-52)."""
        return self.address.strip().lower()


class ReviewArgs(Strict):
    """The payload of a job: an id."""

    review_id: UUID


class Severity(StrEnum):
    """How much a finding matters, the gravest first."""

    CRITICAL = "critical"
    MAJOR = "major"
    MINOR = "minor"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the gravest."""
        return list(type(self)).index(self)


class Finding(Strict):
    """One thing that the critic has to say about one line of the new side of a file."""

    file: Annotated[str, Field(min_length=1, max_length=1000, repr=False)]
    line: Annotated[int, Field(ge=1)]
    severity: Severity
    message: Annotated[str, Field(min_length=1, max_length=4000, repr=False)]
    suggestion: Annotated[str | None, Field(max_length=8000, repr=False)] = None

    @property
    def place(self) -> tuple[str, int, int, str, bool, str]:
        """Where it stands among others: by file and line, then the gravest first; no two that differ stand at one."""
        return (
            self.file, self.line, self.severity.rank, self.message, self.suggestion is not None, self.suggestion or "",
        )  # fmt: skip


class Skipped(Strict):
    """A file of the changelist that the critic is not shown, and why: binary, too_large, deleted, mode_only."""

    file: Annotated[str, Field(max_length=1000, repr=False)]
    reason: str


class Facts(Strict):
    """What the source said about the changelist, for the head of a message."""

    title: Annotated[str, Field(max_length=500, repr=False)] = ""
    author: Annotated[str, Field(max_length=200, repr=False)] = ""
    base: str = ""
    url: Annotated[str | None, Field(max_length=1000, repr=False)] = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a source gives for a changelist: *raw* is a unified diff as `git diff` writes it."""

    revision: str
    facts: Facts
    raw: bytes

    def __repr__(self) -> str:
        return f"Fetched(revision={self.revision!r}, {len(self.raw)} bytes)"


class Review(Strict):
    """A review as whoever asked for it sees it. `status` is in the words of the notification contract (C-01, C-46)."""

    review_id: UUID
    job_id: UUID
    changelist_id: str
    review_version: int
    label: str | None = None
    status: str  # in_progress, retryable_failed, succeeded, dead_letter, canceled
    stage: str
    created_at: datetime
    superseded_by_job_id: UUID | None = None
    findings: Annotated[tuple[Finding, ...] | None, Field(repr=False)] = None
    deliveries: tuple[dict[str, Any], ...] = ()
