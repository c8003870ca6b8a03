"""A lane end to end: the real adapters and their SDKs, through sockets, against a provider that fails by script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Penstock
from penstock.contract.calls import Execution, Request, Route
from penstock.contract.claims import Trigger
from penstock.emulator import Emulator, RemoteEmulator
from penstock.emulator.batches import Batch
from penstock.emulator.clock import Clock
from penstock.store import clock
from tests.engine.batches.conftest import COLLECTOR, SUBMITTER, TYPE, accept
from tests.engine.owners import owner_of
from tests.support.emulator import BATCH_SECONDS

OPENAI, GEMINI, ANTHROPIC = "openai_responses", "gemini_generate", "anthropic_messages"
COUNT = 5
CREATE: dict[str, Any] = {"method": "POST", "path": r"(/batches|:batchGenerateContent)$"}
UPLOAD: dict[str, Any] = {"method": "POST", "path": r"/files$"}
RESULTS: dict[str, Any] = {"method": "GET", "path": r"(/content|/results|:download)$"}

everywhere = pytest.mark.parametrize("kind", [OPENAI, GEMINI, ANTHROPIC])
where_files_are = pytest.mark.parametrize("kind", [OPENAI, GEMINI])
at_openai = pytest.mark.parametrize("kind", [OPENAI])
at_gemini = pytest.mark.parametrize("kind", [GEMINI])
at_anthropic = pytest.mark.parametrize("kind", [ANTHROPIC])

End = tuple[str, int, str | None]  # status, attempts, code
DONE: End = ("completed", 0, None)
WAITING: End = ("batch_submitted", 0, None)


def make_app(
    dsn: str, kind: str, urls: Emulator | RemoteEmulator, *, key: str | None = "any-key", grace: float = 5,
    execution: str = "batch", model: str = "model-1", **policy: Any,
) -> Penstock:  # fmt: skip
    """An application with one lane to the provider of *kind*; what it stores tells which letter was answered."""
    provider = kind.partition("_")[0]
    route = Route(provider, model, kind, getattr(urls, f"{provider}_base_url"), Execution(execution))

    def build(_job: Any, args: dict[str, Any]) -> Request:
        return Request(route, "Rewrite politely.", f"letter {args['n']}")

    async def persist(job: Any, _args: Any, result: str, connection: Any) -> None:
        await connection.execute("insert into outputs (job_id, text) values ($1, $2)", job.job_id, result)

    keys: dict[str, Any] = {f"{name}_api_key": key for name in ("openai", "gemini", "anthropic")}
    app = Penstock(dsn, grace_seconds=grace, **keys)
    app.lane(TYPE, **{"build": build, "accept": accept, "persist": persist, "attempts": 3, **policy})
    return app


@dataclass
class World:
    """The lane, its provider, and one clock for both."""

    app: Penstock
    dsn: str
    owner: asyncpg.Connection[Any]
    emulator: Emulator
    kind: str
    ids: list[UUID] = field(default_factory=list)

    async def fill(self, count: int = COUNT) -> None:
        """Letters, numbered on."""
        first = len(self.ids)
        self.ids += [await self.app.enqueue(TYPE, {"n": first + n}) for n in range(count)]

    async def submit(self) -> None:
        """One run of the submitter."""
        await self.app.run_function(SUBMITTER, trigger=Trigger.SCHEDULE, insecure=True)

    async def collect(self) -> None:
        """One run of the collector."""
        await self.app.run_function(COLLECTOR, trigger=Trigger.SCHEDULE, insecure=True)

    async def send(self, count: int = COUNT) -> None:
        """Letters that wait at the provider."""
        await self.fill(count)
        await self.submit()
        assert {end[0] for end in (await self.ends())[-count:]} == {"batch_submitted"}

    async def pass_time(self, **span: float) -> None:
        """For the database and for the provider."""
        shift = timedelta(**span)
        self.emulator.advance(shift.total_seconds())
        await clock.wind(self.owner, shift)

    async def come_back(self, **span: float) -> None:
        """Let the time pass that a batch takes, or *span*, and collect."""
        await self.pass_time(**(span or {"seconds": BATCH_SECONDS}))
        await self.collect()

    async def until_over(self, rounds: int = 12) -> None:
        """Submit and collect until every job has ended."""
        for _ in range(rounds):
            await self.pass_time(minutes=30)
            await self.submit()
            await self.pass_time(seconds=BATCH_SECONDS)
            await self.collect()
            if {end[0] for end in await self.ends()} <= {"completed", "failed"}:
                return
        raise AssertionError(await self.ends())

    async def ends(self) -> list[End]:
        """How each letter stands, in their order."""
        rows = await self.owner.fetch(
            "select status, attempt_count, last_error_code from penstock.jobs "
            "order by array_position($1::uuid[], job_id)",
            self.ids,
        )
        return [tuple(row) for row in rows]

    async def outputs(self) -> set[int]:
        """The numbers of the letters that are stored, each once and under its own job."""
        rows = await self.owner.fetch("select job_id, text from outputs")
        found = {self.ids.index(row["job_id"]): row["text"] for row in rows}
        assert len(found) == len(rows), "stored twice"
        assert all(f"letter {number}." in text for number, text in found.items()), "under a wrong job"
        return set(found)

    async def alerts(self) -> set[str]:
        """The kinds of all alerts."""
        return {row["kind"] for row in await self.owner.fetch("select kind from penstock.alerts")}

    async def items(self) -> list[str]:
        """The state of each item, batch by batch."""
        rows = await self.owner.fetch(
            "select i.state from penstock.batch_items i join penstock.batches b using (batch_id) "
            "order by b.created_at, i.batch_item_index"
        )
        return [row["state"] for row in rows]

    def live(self) -> list[Batch]:
        """The batches at the provider that nobody has cancelled and that count."""
        return [batch for batch in self.emulator.batches if batch.cancelled_at is None]

    def asked(self, **what: Any) -> int:
        """How many requests of this kind have come to the provider."""
        rule = self.emulator.faults.add("delay", seconds=0, **what)
        fits = [call for call in self.emulator.calls if rule.method in (None, call.method)]
        self.emulator.faults.rules.remove(rule)
        return sum(rule.path is None or rule.path.search(call.path) is not None for call in fits)


@pytest.fixture(scope="module")
def started() -> Iterator[Emulator]:
    """One server for all of them; a batch takes a minute of a clock that only the test moves."""
    with Emulator(finish_after=BATCH_SECONDS, frozen=True) as server:
        yield server


@pytest.fixture
def emulator(started: Emulator) -> Emulator:
    """The same server, with nothing of the test before: the clock of the next database begins at the present, too."""
    started.reset()
    started.world.clock = Clock(frozen=True)
    return started


@pytest.fixture
async def world(dsn: str, emulator: Emulator, kind: str) -> AsyncIterator[World]:
    """A lane to the provider of *kind*."""
    app = make_app(dsn, kind, emulator)
    async with app:
        await app.sync_types()
        yield World(app, dsn, owner_of(app), emulator, kind)
