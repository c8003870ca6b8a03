"""The port that every adapter fills: single calls, and the life of a batch at its provider.

An adapter is stateless between calls apart from its HTTP client. It raises
`Failed` with a class of the closed list, and for a create or an upload it says
whether the provider may have acted: `NotPerformed` when it certainly has not,
anything else when nobody can tell. It retries nothing; the engine does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from penstock.contract.calls import NOTHING, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from penstock.contract.calls import Answer, Request
    from penstock.contract.classify import Failure


class Lookup(StrEnum):
    """How a submission whose outcome is unknown can be found again."""

    BY_TOKEN = "by_token"  # metadata, file name or display name; an absence can be proven  # noqa: S105 - a word
    AFTER_END = "after_end"  # only an ended batch shows whose it is (C-66)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one batch may hold, and how long it may take."""

    items: int
    body_bytes: int
    window: timedelta  # from creation to the provider's own expiry
    margin: timedelta = timedelta(hours=1)  # ours on top, before we give it up (C-05)
    grace: timedelta = timedelta(minutes=5)  # how long a fresh batch may be missing from lists and polls


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch on its way out: its id (which is the token), its lines in order, and what they share."""

    batch_id: UUID
    model: str
    lines: Sequence[bytes] = field(repr=False)
    created_at: datetime  # by the database's clock
    display_name: str = ""

    @property
    def token(self) -> str:
        """What the provider is told, and asked for after a crash."""
        return self.batch_id.hex


@dataclass(frozen=True, slots=True)
class Uploaded:
    """The input at the provider; None where requests travel with the create."""

    file_id: str | None = None


@dataclass(frozen=True, slots=True)
class Created:
    """A batch that the provider has."""

    provider_batch_id: str
    input_file_id: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    ended: bool = False
    cancelled: bool = False  # or being cancelled: the worse one of two to keep


class Phase(StrEnum):
    """Where a batch stands; every provider's words come down to these."""

    RUNNING = "running"  # also validating, finalizing, canceling
    COMPLETED = "completed"
    FAILED = "failed"  # refused as a whole: nothing was executed
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that made a provider refuse the whole batch; *index* from 0, None when no line is named."""

    index: int | None
    failure: Failure


@dataclass(frozen=True, slots=True)
class BatchState:
    """What a poll has shown."""

    provider_batch_id: str
    phase: Phase
    provider_status: str  # the provider's own word, from a closed list of ours; 'unknown' otherwise
    expires_at: datetime | None = None
    input_file_id: str | None = None
    output_file_id: str | None = None  # '' from a provider is None here
    error_file_id: str | None = None
    total: int | None = None
    completed: int | None = None
    failed: int | None = None
    bad_lines: Sequence[BadLine] = ()  # of a FAILED batch; empty: nobody's line, requeue all


@dataclass(frozen=True, slots=True)
class ItemResult:
    """One line of the results, parsed: an answer, or why there is none. Never both."""

    custom_id: str
    answer: Answer | None = None
    failure: Failure | None = None
    usage: Usage = NOTHING  # of a failure: a refused or unfinished answer is paid for as any other
    at: datetime | None = None  # this item's own time
    digest: str = ""  # tells two lines of one item apart without keeping either


class Adapter(Protocol):
    """Single calls."""

    kind: str
    provider: str
    supports_micro_batch: bool
    limits: BatchLimits | None  # None: no batches

    async def call(self, request: Request, *, seconds: float) -> Answer:
        """Ask once, within *seconds*."""

    async def close(self) -> None:
        """Give the connections back."""


class BatchAdapter(Adapter, Protocol):
    """Batches as well."""

    limits: BatchLimits
    lookup: Lookup

    def line(self, custom_id: str, request: Request) -> bytes:
        """One line of the input, without its newline: one request, one user (A-56)."""

    async def upload(self, submission: Submission) -> Uploaded:
        """Send the input. A stray input is harmless: it is deleted by name later, or expires."""

    async def create(self, submission: Submission, uploaded: Uploaded) -> Created:
        """Create the batch. `NotPerformed` when it certainly was not created."""

    async def find(self, submission_id: UUID, since: datetime, until: datetime) -> list[Created]:
        """Every batch of this submission that the provider shows, newest first.

        It was created between *since* and *until*, or never: where only an
        ended batch shows whose it is, what was made later is no candidate.
        Raises when the provider cannot be asked: an empty list is an
        authenticated absence.
        """

    async def poll(self, provider_batch_id: str) -> BatchState:
        """Where the batch stands; `Failed(NOT_FOUND)` when the provider does not know it."""

    def results(self, state: BatchState) -> AsyncIterator[ItemResult]:
        """Every line of output and error file, in no order.

        The whole artifact is in memory, complete and parsed, before the first
        line is given out: a truncated download raises, and nothing has been
        written by then (A-83: no text touches the disk).
        """

    async def cancel(self, provider_batch_id: str) -> None:
        """Ask the provider to stop it; a batch that has ended already is no error."""

    async def discard(self, state: BatchState) -> None:
        """Delete its input and output at the provider; what is gone already is no error."""

    async def discard_input(self, submission_id: UUID, since: datetime) -> None:
        """Delete the input that was uploaded under this token since then, found by its name; there may be none."""
