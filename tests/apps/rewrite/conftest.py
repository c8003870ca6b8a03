"""The application end to end: both sides under their own logins, real adapters, a provider that fails by script."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from penstock.apps.rewrite import Output, Rewrites, Submitted, homes, rewrite_app
from penstock.apps.rewrite.hydration import Unit
from penstock.apps.rewrite.keyring import new_key
from penstock.apps.rewrite.models import ClassifierResultV1, Confidence, Strength
from penstock.apps.rewrite.policy import COLLECTOR, SUBMITTER
from penstock.contract.claims import Trigger
from penstock.emulator import Emulator
from penstock.emulator.clock import Clock
from penstock.engine.dispatcher import Dispatched
from penstock.store import clock
from penstock.store.roles import ORCHESTRATOR, WORKER
from tests.apps.rewrite.rewriter import COMPLAINTS, answer, complaint, echo_of
from tests.support.emulator import BATCH_SECONDS

ROUTE: dict[str, Any] = {
    "provider": "openai", "adapter_kind": "openai_responses", "model": "gpt-5-mini", "prompt_version": "v1",
    "policy_version": "v1", "execution_mode": "batch", "cache_eligible": True, "max_retries": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Home:
    """Two people who share a home."""

    home_id: UUID
    sender: UUID
    recipient: UUID


@dataclass(frozen=True)
class Sent:
    """A message that was taken."""

    home: Home
    request_id: UUID
    canary: str

    @property
    def unit(self) -> Unit:
        """The stored payload of its job."""
        return Unit(
            rewrite_request_id=self.request_id, recipient_user_id=self.home.recipient, home_id=self.home.home_id
        )

    @property
    def echo(self) -> str:
        """What its output must hold."""
        return echo_of(self.canary)


@dataclass
class Spy:
    """A classifier that knows the complaints of the tests, remembers what it was asked, and can be made to fail."""

    asked: list[str] = field(default_factory=list)
    error: Exception | None = None

    async def classify(self, text: str) -> ClassifierResultV1:
        """The language of a complaint with high confidence; of anything else nothing is known."""
        self.asked.append(text)
        if self.error is not None:
            raise self.error
        language = next((code for code, known in COMPLAINTS.items() if text.startswith(known)), None)
        sure = Confidence.LOW if language is None else Confidence.HIGH
        return ClassifierResultV1(
            classifier_version="spy-1", detected_language=language, language_confidence=sure, topics=("kitchen",),
            intent="complaint", rewrite_strength=Strength.FULL_REFRAME, safety_flags=("none_seen",),
        )  # fmt: skip


@dataclass
class World:
    """Two sides, one database, one provider, and one clock for both."""

    orchestrator: Rewrites
    worker: Rewrites
    owner: asyncpg.Connection[Any]
    emulator: Emulator
    log: StringIO
    classifier: Spy
    sent: list[Sent] = field(default_factory=list)

    # ------------------------------------------------------------------ homes

    async def home(self, sender: str | None = "en-US", recipient: str | None = "en-NZ") -> Home:
        """A home with two members of these locales."""
        home = Home(uuid4(), uuid4(), uuid4())
        async with self.orchestrator.in_home(home.home_id) as connection:
            await homes.put_home(connection, home.home_id)
            await homes.put_member(connection, home.home_id, home.sender, sender)
            await homes.put_member(connection, home.home_id, home.recipient, recipient)
        return home

    async def join(self, home: Home, locale: str | None = "en") -> UUID:
        """Somebody who moves in."""
        user_id = uuid4()
        async with self.orchestrator.in_home(home.home_id) as connection:
            await homes.put_member(connection, home.home_id, user_id, locale)
        return user_id

    async def wish(self, home: Home, tone: str | None = None, blocked_terms: tuple[str, ...] = ()) -> None:
        """What the recipient wishes from now on."""
        async with self.orchestrator.in_home(home.home_id) as connection:
            key = await homes.home_key(connection, self.orchestrator.keyring, home.home_id, create=True)
            await homes.put_preferences(connection, key, home.home_id, home.recipient, tone, blocked_terms)

    # --------------------------------------------------------------- messages

    async def submit(self, home: Home, text: str, **over: Any) -> Submitted:
        """Hand a message in."""
        message: dict[str, Any] = {
            "home_id": home.home_id, "sender_user_id": home.sender, "recipient_user_ids": [home.recipient],
            "text": text, "surface": "direct_message",
        }  # fmt: skip
        return await self.orchestrator.submit_rewrite(**{**message, **over})

    async def send(self, home: Home, language: str = "en", **over: Any) -> Sent:
        """A complaint in *language* that is taken."""
        canary = secrets.token_hex(6)
        done = await self.submit(home, complaint(language, canary), **over)
        assert done.accepted
        self.sent.append(Sent(home, done.rewrite_request_id, canary))
        return self.sent[-1]

    async def output(self, sent: Sent) -> Output | None:
        """What was rewritten of it, as whoever delivers it reads it."""
        return await self.orchestrator.read_output(sent.home.home_id, sent.request_id)

    # ------------------------------------------------------------------- runs

    async def run_submitter(self) -> Dispatched:
        """One run, as the schedule makes it."""
        return await self.worker.app.run_function(SUBMITTER, trigger=Trigger.SCHEDULE)

    async def run_collector(self) -> Dispatched:
        """One run, as the schedule makes it."""
        return await self.worker.app.run_function(COLLECTOR, trigger=Trigger.SCHEDULE)

    async def pass_time(self, **span: float) -> None:
        """For the database and for the provider."""
        shift = timedelta(**span)
        self.emulator.advance(shift.total_seconds())
        await clock.wind(self.owner, shift)

    async def through(self) -> None:
        """Out to the provider and back."""
        await self.run_submitter()
        await self.pass_time(seconds=BATCH_SECONDS)
        await self.run_collector()

    # ------------------------------------------------------------------- rows

    async def request(self, sent: Sent | UUID) -> asyncpg.Record:
        """The row of a request."""
        request_id = sent.request_id if isinstance(sent, Sent) else sent
        row: asyncpg.Record | None = await self.owner.fetchrow(
            "select * from rewrite.rewrite_requests where rewrite_request_id = $1", request_id
        )
        assert row is not None
        return row

    async def job(self, sent: Sent) -> asyncpg.Record:
        """The row of its job, with the route."""
        row: asyncpg.Record | None = await self.owner.fetchrow(
            "select j.*, d.routing_decision, d.lane, d.source_locale, d.target_locale from penstock.jobs j "
            "join rewrite.rewrite_jobs d using (job_id) where d.rewrite_request_id = $1",
            sent.request_id,
        )
        assert row is not None
        return row

    async def claimed(self, sent: Sent) -> Any:
        """Its job, as `build`, `accept` and `persist` see it."""
        row = await self.job(sent)
        return SimpleNamespace(job_id=row["job_id"], claim_seq=row["claim_seq"], attempt=row["attempt_count"] + 1)

    async def ends(self, *sents: Sent) -> list[tuple[str, str, str | None]]:
        """Status of the job, status of the request and code of each."""
        return [await self._end(sent) for sent in sents or self.sent]

    async def _end(self, sent: Sent) -> tuple[str, str, str | None]:
        job = await self.job(sent)
        return job["status"], (await self.request(sent))["status"], job["last_error_code"]

    async def slots(self) -> int:
        """How many outputs are stored."""
        return int(await self.owner.fetchval("select count(*) from rewrite.rewrite_outputs"))

    async def trail(self, sent: Sent) -> list[str]:
        """The statuses that its job has passed."""
        rows = await self.owner.fetch(
            "select to_status from penstock.job_events where job_id = $1 order by event_id",
            (await self.job(sent))["job_id"],
        )
        return [row["to_status"] for row in rows]

    async def alerts(self) -> list[asyncpg.Record]:
        """Every alert."""
        return await self.owner.fetch("select kind, severity, subject from penstock.alerts order by alert_id")

    def asked(self) -> int:
        """How many requests of any kind have come to the provider."""
        return len(self.emulator.calls)

    def lines(self) -> list[list[str]]:
        """Every question of every batch at the provider, as it was uploaded."""
        found = [[item.body()["body"] for item in batch.items] for batch in self.emulator.batches]
        return [[json.dumps(body, ensure_ascii=False) for body in bodies] for bodies in found]

    def line_of(self, sent: Sent) -> str:
        """The first question that was asked about it."""
        return next(line for lines in self.lines() for line in lines if sent.canary in line)

    async def leaks(self, *needles: str) -> list[str]:
        """Where one of *needles* stands in the open: tables of every schema, and the log."""
        found = [f"log: {needle}" for needle in needles if needle in self.log.getvalue()]
        tables = await self.owner.fetch(
            "select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n "
            "on n.oid = c.relnamespace where c.relkind in ('r', 'p') and n.nspname in ('penstock', 'rewrite', 'public')"
        )
        looks = " union all ".join(
            f"select {number}, needle from needles where exists (select from {table['name']} as t "
            "where t::text like any(array[format('%%%s%%', needle), format('%%%s%%', hex)]))"
            for number, table in enumerate(tables)
        )
        hits = await self.owner.fetch(  # all at once: each look by itself would be planned by itself
            f"with needles as (select * from unnest($1::text[], $2::text[]) as n (needle, hex)) {looks}",
            needles,
            [needle.encode().hex() for needle in needles],
        )
        return found + [f"{tables[number]['name']}: {needle}" for number, needle in hits]


@pytest.fixture(scope="module")
def started() -> Iterator[Emulator]:
    """One server for all of them; a batch takes a minute of a clock that only the test moves."""
    with Emulator(finish_after=BATCH_SECONDS, frozen=True, answer=answer) as server:
        yield server


@pytest.fixture
def emulator(started: Emulator) -> Emulator:
    """The same server, with nothing of the test before."""
    started.reset()
    started.world.clock = Clock(frozen=True)
    return started


MakeWorld = Callable[..., Any]


@pytest.fixture
async def make_world(
    dsn: str, role_dsn: Callable[[str], str], emulator: Emulator, log: StringIO
) -> AsyncIterator[MakeWorld]:
    """Make a world: `make_world(route={...}, rules=[...])`; the other keywords are settings."""
    opened: list[World] = []
    keys = new_key("test")

    async def make(route: dict[str, Any] | None = None, rules: Any = (), **settings: Any) -> World:
        base = {**ROUTE, "base_url": emulator.openai_base_url, **(route or {})}
        table = json.dumps({"default": base, "rules": [{**rule, "route": {**base, **rule["route"]}} for rule in rules]})
        given: dict[str, Any] = {
            "text_keys": keys, "rewrite_routes": table, "openai_api_key": "any", "gemini_api_key": "any",
            "grace_seconds": 5, **settings,
        }  # fmt: skip
        spy = Spy()
        orchestrator = rewrite_app(dsn=role_dsn(ORCHESTRATOR), classifier=spy, **given)
        worker = rewrite_app(dsn=role_dsn(WORKER), classifier=spy, **given)
        await orchestrator.app.open()
        await worker.app.open()
        await worker.app.sync_types()
        world = World(orchestrator, worker, await asyncpg.connect(dsn), emulator, log, spy)
        opened.append(world)
        return world

    yield make
    for world in opened:
        await world.owner.close()
        await world.worker.app.close()
        await world.orchestrator.app.close()


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    """A world that asks through a batch at the emulated OpenAI."""
    made: World = await make_world()
    return made
