"""The way back: a provider whose batches end as the test says, and a lane that collects them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from penstock import Failed, FailureClass
from penstock.contract.calls import Answer, Usage
from penstock.contract.claims import Trigger
from penstock.contract.classify import Failure
from penstock.engine.bounded import TimedRun
from penstock.engine.dispatcher import Dispatched
from penstock.providers.port import BadLine, BatchState, ItemResult, Phase
from tests.engine.batches.conftest import COLLECTOR, Lane, MakeLane
from tests.support.fake_provider import LIMITS, FakeAdapter, FakeBatch, FakeProvider

USED = Usage(1000, 200)
EPOCH = datetime(2026, 11, 2, tzinfo=UTC)

Lines = Callable[[FakeBatch], list[ItemResult]]


def answer(custom_id: str, text: str, *, seconds: float = 0, usage: Usage = USED, data: Any = None) -> ItemResult:
    """A line with an answer."""
    at = EPOCH + timedelta(seconds=seconds)
    return ItemResult(custom_id, Answer(text, data, usage, "small"), at=at, digest=f"{text}/{seconds}")


def error(custom_id: str, error_class: FailureClass, *, retryable: bool) -> ItemResult:
    """A line without one."""
    return ItemResult(custom_id, failure=Failure(error_class, retryable=retryable), at=EPOCH, digest=str(error_class))


def all_answers(batch: FakeBatch) -> list[ItemResult]:
    """One answer for each request, in order: what was asked, said back."""
    return [answer(r["custom_id"], f"re: {r['text']}", seconds=n) for n, r in enumerate(batch.requests())]


@dataclass
class Side(FakeProvider):
    """The provider's side of the way back. Every batch of it stands where the test has put it."""

    phase: Phase = Phase.COMPLETED
    status: str | None = None
    lines: Lines = all_answers
    bad_lines: tuple[BadLine, ...] = ()
    files: tuple[str | None, str | None] = ("out_1", "err_1")
    poll_raises: Exception | None = None
    download_raises: Exception | None = None
    breaks_after: int | None = None  # lines that are given out before the download breaks
    cancel_ends: bool = True  # a cancelled batch ends; else it goes on and on
    tells_input: bool = True  # a poll names the input
    discard_raises: Exception | None = None
    discarded: list[BatchState] = field(default_factory=list)
    polled: list[str] = field(default_factory=list)
    downloads: int = 0
    before_download: Callable[[], Any] | None = None

    def find(self, provider_batch_id: str) -> FakeBatch:
        """The batch of this id."""
        (found,) = [batch for batch in self.batches if batch.provider_batch_id == provider_batch_id]
        return found

    def phase_of(self, batch: FakeBatch) -> Phase:
        """Where it stands; a cancelled one has ended unless the test says otherwise."""
        if batch.cancelled and self.cancel_ends and self.phase is Phase.RUNNING:
            return Phase.CANCELLED
        return self.phase


class ReturningAdapter(FakeAdapter):
    """An adapter that can also ask after batches."""

    side: Side

    async def poll(self, provider_batch_id: str) -> BatchState:
        self.side.polled.append(provider_batch_id)
        if self.side.poll_raises is not None:
            raise self.side.poll_raises
        phase = self.side.phase_of(self.side.find(provider_batch_id))
        over = phase is not Phase.RUNNING
        output, errors = self.side.files if over else (None, None)
        bad = self.side.bad_lines if phase is Phase.FAILED else ()
        return BatchState(
            provider_batch_id, phase, self.side.status or str(phase),
            input_file_id="in_1" if self.side.tells_input else None, output_file_id=output,
            error_file_id=errors, bad_lines=bad,
        )  # fmt: skip

    async def results(self, state: BatchState) -> AsyncIterator[ItemResult]:
        self.side.downloads += 1
        if self.side.before_download is not None:
            await self.side.before_download()
        if self.side.download_raises is not None:
            raise self.side.download_raises
        for given, line in enumerate(self.side.lines(self.side.find(state.provider_batch_id))):
            if given == self.side.breaks_after:
                raise Failed(FailureClass.NETWORK_RESET)
            yield line

    async def discard(self, state: BatchState) -> None:
        if self.side.discard_raises is not None:
            raise self.side.discard_raises
        self.side.discarded.append(state)


@dataclass
class Home(Lane):
    """A lane with a way back."""

    provider: Side

    async def sent(self, count: int = 3, **args: Any) -> list[UUID]:
        """Jobs that wait in one batch."""
        ids = await self.fill(count, **args)
        await self.submitted()
        return ids

    async def collect(self, **options: Any) -> Dispatched:
        """One call of the collector, as a schedule makes it."""
        return await self.app.run_function(COLLECTOR, trigger=Trigger.SCHEDULE, **{"insecure": True, **options})

    async def collected(self, trigger: Trigger = Trigger.ADMIN) -> TimedRun:
        """One call that must come to a run without an error."""
        dispatched = await self.app.run_function(COLLECTOR, trigger=trigger, insecure=True)
        assert dispatched.run is not None
        assert dispatched.error is None
        return dispatched.run

    async def states(self) -> list[str]:
        """The state of every item, batch by batch."""
        rows = await self.owner.fetch(
            "select i.state from penstock.batch_items i join penstock.batches b using (batch_id) "
            "order by b.created_at, b.batch_id, i.batch_item_index"
        )
        return [row["state"] for row in rows]

    async def codes(self, ids: list[UUID]) -> list[tuple[str, str | None]]:
        """Status and last error of each job."""
        rows = [await self.job(job_id) for job_id in ids]
        return [(row["status"], row["last_error_code"]) for row in rows]

    async def letter(self, job_id: UUID) -> asyncpg.Record:
        """The dead letter of a job."""
        (row,) = await self.owner.fetch("select * from penstock.dead_letters where job_id = $1", job_id)
        found: asyncpg.Record = row
        return found

    async def alert_kinds(self) -> list[str]:
        """The kinds of all alerts, in order."""
        return [row["kind"] for row in await self.owner.fetch("select kind from penstock.alerts order by alert_id")]

    async def outputs(self) -> dict[UUID, str]:
        """What `persist` has stored, by job."""
        rows = await self.owner.fetch("select job_id, text from outputs")
        assert len({row["job_id"] for row in rows}) == len(rows), "stored twice"
        return {row["job_id"]: row["text"] for row in rows}


async def store(job: Any, _args: Any, result: str, connection: Any) -> None:
    """The application's own rows."""
    await connection.execute("insert into outputs (job_id, text) values ($1, $2)", job.job_id, result)


async def make_home(make_lane: MakeLane, **options: Any) -> Home:
    """A lane whose provider is a `Side`."""
    side = Side()
    limits = options.get("limits", LIMITS)
    made = await make_lane(provider=side, **options)
    made.app.use_adapters({"fake": lambda url: ReturningAdapter(side, limits=limits, base_url=url)})
    return Home(made.app, made.dsn, made.owner, side)


def shuffled(seed: int) -> Lines:
    """The same answers in an order of their own."""

    def lines(batch: FakeBatch) -> list[ItemResult]:
        found = all_answers(batch)
        random.Random(seed).shuffle(found)  # noqa: S311 - an order, no secret
        return found

    return lines
