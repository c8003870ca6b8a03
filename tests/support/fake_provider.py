"""A provider in memory that does exactly as it is told: it refuses, loses replies and hides batches.

With a *ledger* it also writes every batch to a file, so that what a killed
process had it do is known to the next one.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from penstock import Failed, FailureClass, NotPerformed
from penstock.contract.calls import Answer, Request, Usage
from penstock.providers.port import BatchLimits, Created, Lookup, Submission, Uploaded

LIMITS = BatchLimits(items=100, body_bytes=100_000, window=timedelta(hours=24))


def refusal(error_class: FailureClass, status: int = 400, retry_after: timedelta | None = None) -> NotPerformed:
    """The provider's definite no."""
    error = NotPerformed("the provider did not take it")
    error.__cause__ = Failed(error_class, upstream_status=status, retry_after=retry_after)
    return error


@dataclass
class FakeBatch:
    """A batch as the provider knows it."""

    provider_batch_id: str
    token: str
    model: str
    lines: Sequence[bytes]
    created_at: datetime
    cancelled: bool = False
    hidden: bool = False  # not in any list yet

    def requests(self) -> list[dict[str, Any]]:
        """Its lines, parsed."""
        return [json.loads(line) for line in self.lines]


@dataclass
class FakeProvider:
    """The provider's side of every fake adapter; scripts are used up from the left."""

    batches: list[FakeBatch] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # what it was asked to do, in order
    refuse_upload: deque[Exception] = field(default_factory=deque)
    refuse_create: deque[Exception] = field(default_factory=deque)  # raised before it acts
    lose_create: deque[Exception] = field(default_factory=deque)  # raised after it has acted
    refuse_find: Exception | None = None
    refuse_cancel: Exception | None = None
    refuse_discard: Exception | None = None
    discarded_inputs: list[UUID] = field(default_factory=list)
    hide: bool = False  # fresh batches are missing from lists
    before_create: Callable[[Submission], Awaitable[None]] | None = None
    after_create: Callable[[Submission], Awaitable[None]] | None = None
    before_upload: Callable[[Submission], Awaitable[None]] | None = None
    answer: Callable[[Request], Answer] = lambda _request: Answer("yes", usage=Usage(3, 2), model="small")
    calls: list[Request] = field(default_factory=list)
    ledger: Path | None = None

    @property
    def live(self) -> list[FakeBatch]:
        """Batches that nobody has cancelled."""
        return [batch for batch in self.batches if not batch.cancelled]

    def count(self, what: str) -> int:
        """How often it was asked to do *what*."""
        return sum(asked == what for asked in self.asked)

    def show_all(self) -> None:
        """Every batch is in the lists now."""
        self.hide = False
        for batch in self.batches:
            batch.hidden = False

    def take(self, submission: Submission) -> FakeBatch:
        """Make a batch, as a create does."""
        number = len(self.batches) + 1
        made = FakeBatch(
            f"pb_{number}",
            submission.token,
            submission.model,
            list(submission.lines),
            datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=number),
            hidden=self.hide,
        )
        self.batches.append(made)
        if self.ledger is not None:
            with self.ledger.open("a") as file:
                lines = [line.decode() for line in made.lines]
                file.write(json.dumps([made.provider_batch_id, made.token, lines]) + "\n")
        return made

    def remember(self) -> None:
        """Learn from the ledger what other processes had it do."""
        assert self.ledger is not None
        known = {batch.provider_batch_id for batch in self.batches}
        text = self.ledger.read_text() if self.ledger.exists() else ""
        for name, token, lines in map(json.loads, text.splitlines()):
            if name not in known:
                made = datetime(2026, 11, 1, tzinfo=UTC)
                self.batches.append(FakeBatch(name, token, "", [line.encode() for line in lines], made))


class FakeAdapter:
    """An adapter of the fake provider."""

    supports_micro_batch = False
    lookup = Lookup.BY_TOKEN

    def __init__(
        self, provider: FakeProvider, kind: str = "fake", limits: BatchLimits = LIMITS, base_url: str | None = None
    ) -> None:
        self.side = provider
        self.kind = kind
        self.provider = "acme"
        self.limits: BatchLimits | None = limits
        self.base_url = base_url
        self.closed = False

    async def call(self, request: Request, *, seconds: float) -> Answer:
        assert seconds > 0
        self.side.asked.append("call")
        self.side.calls.append(request)
        return self.side.answer(request)

    async def close(self) -> None:
        self.closed = True

    def line(self, custom_id: str, request: Request) -> bytes:
        if request.text == "impossible":
            raise Failed(FailureClass.SCHEMA_INVALID)
        body = {"custom_id": custom_id, "model": request.route.model, "text": request.text}
        return json.dumps(body).encode()

    async def upload(self, submission: Submission) -> Uploaded:
        self.side.asked.append("upload")
        if self.side.before_upload is not None:
            await self.side.before_upload(submission)
        if self.side.refuse_upload:
            raise self.side.refuse_upload.popleft()
        return Uploaded(f"file_{submission.token[:8]}")

    async def create(self, submission: Submission, uploaded: Uploaded) -> Created:
        self.side.asked.append("create")
        if self.side.before_create is not None:
            await self.side.before_create(submission)
        if self.side.refuse_create:
            raise self.side.refuse_create.popleft()
        made = self.side.take(submission)
        if self.side.after_create is not None:
            await self.side.after_create(submission)
        if self.side.lose_create:
            raise self.side.lose_create.popleft()
        return _created(made, uploaded.file_id)

    async def find(self, submission_id: UUID, since: datetime, until: datetime) -> list[Created]:
        self.side.asked.append("find")
        assert until - since > timedelta(minutes=45)  # both calls, and the skew of the clocks on both sides
        if self.side.refuse_find is not None:
            raise self.side.refuse_find
        return [_created(b, None) for b in self.side.batches if b.token == submission_id.hex and not b.hidden]

    async def discard_input(self, submission_id: UUID, since: datetime) -> None:
        assert since.tzinfo is not None
        if self.side.refuse_discard is not None:
            raise self.side.refuse_discard
        self.side.discarded_inputs.append(submission_id)

    async def cancel(self, provider_batch_id: str) -> None:
        self.side.asked.append("cancel")
        if self.side.refuse_cancel is not None:
            raise self.side.refuse_cancel
        for batch in self.side.batches:
            if batch.provider_batch_id == provider_batch_id:
                batch.cancelled = True


def _created(batch: FakeBatch, file_id: str | None) -> Created:
    return Created(batch.provider_batch_id, file_id, created_at=batch.created_at, cancelled=batch.cancelled)
