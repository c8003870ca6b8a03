"""Reviews end to end: both sides under their own logins, with a source, a critic and a channel that fail by script."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Failed, FailureClass, Penstock
from penstock.apps.review import Created, Review, Reviews, deliveries
from penstock.apps.review.models import Facts, Fetched
from penstock.channels.addresses import checked_mail
from penstock.channels.port import Message, Receipt, Settles, WhenUncertain
from penstock.channels.registry import Channels
from penstock.contract.calls import Answer, Request, Usage
from penstock.contract.errors import EnqueueRefused
from penstock.settings import load_settings
from penstock.store.roles import OPERATOR, ORCHESTRATOR, WORKER
from penstock.testing import Clock, Harness
from tests.support.fake_provider import FakeAdapter, FakeProvider

DIFF = """diff --git a/{name} b/{name}
index 1111111..2222222 100644
--- a/{name}
+++ b/{name}
@@ -1,2 +1,2 @@
 def mean(prices):
-    return sum(prices)
+    return sum(prices) / len(prices)  # {words}
"""
TO = {"channel": "smtp", "address": "dev@example.org"}
FINDING = {"line": 2, "severity": "major", "message": "Divides by zero when empty.", "suggestion": None}


def diff(*names: str, words: str = "mean") -> bytes:
    """A unified diff that changes these files alike."""
    return "".join(DIFF.format(name=name, words=words) for name in names or ("till.py",)).encode()


@dataclass
class FakeSource:
    """A source that does as it is told; *failures* are used up from the left."""

    raw: bytes = field(default_factory=diff)
    failures: deque[Exception] = field(default_factory=deque)
    fetched: list[str] = field(default_factory=list)
    during: Callable[[], Awaitable[None]] | None = None
    kind: str = "git"

    def checked(self, ref: str) -> str:
        if ref.startswith("-"):
            raise EnqueueRefused("a ref does not begin with a dash; give a commit, a range or a branch")
        return ref

    async def fetch(self, ref: str, *, max_bytes: int) -> Fetched:
        self.fetched.append(ref)
        if self.during is not None:
            await self.during()
        if self.failures:
            raise self.failures.popleft()
        if len(self.raw) > max_bytes:
            raise Failed(FailureClass.PAYLOAD_REJECTED, f"the changelist is larger than {max_bytes} bytes")
        return Fetched("4f1c2aa", Facts(title="Count the till", author="Ada"), self.raw)


@dataclass
class FakeSources:
    """The sources of both sides."""

    known: Mapping[str, FakeSource]

    def get(self, name: str) -> FakeSource:
        if name not in self.known:
            raise EnqueueRefused(f"there is no source {name!r}; there are {', '.join(sorted(self.known))}")
        return self.known[name]


@dataclass
class FakeChannel:
    """A channel that takes every message once per token, unless *failures* say otherwise."""

    kind: str = "smtp"
    settles: frozenset[Settles] = frozenset({Settles.LOOKUP_BY_TOKEN})
    window: timedelta | None = None
    when_uncertain: WhenUncertain = WhenUncertain.SEND_AGAIN
    failures: deque[Exception] = field(default_factory=deque)
    sent: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    sends: int = 0

    def checked(self, address: str) -> str:
        return checked_mail(address)

    def compose(self, message: Message) -> bytes:
        return message.text.encode()

    async def send(self, address: str, token: str, payload: bytes) -> Receipt:
        self.sends += 1
        if self.failures:
            raise self.failures.popleft()
        self.sent[token] = (address, payload)
        return Receipt(f"<{token}@test>")

    async def look_up(self, token: str, notification_id: str | None) -> Receipt | None:
        return Receipt(notification_id or f"<{token}@test>") if token in self.sent else None

    async def close(self) -> None:
        pass


@dataclass
class Critic:
    """A model that finds the same in every file it is shown; *failures* are used up from the left."""

    failures: deque[Exception] = field(default_factory=deque)
    asked: list[Request] = field(default_factory=list)

    def answer(self, request: Request) -> Answer:
        self.asked.append(request)
        if self.failures:
            raise self.failures.popleft()
        shown = [name for name in ("till.py", "shop.py", "stock.py", "tax.py") if name in request.text]
        data = {"findings": [{"file": name, **FINDING} for name in shown]}
        return Answer(json.dumps(data), data, Usage(100, 20), "gpt-5-mini")


@dataclass
class World:
    """Two sides, one database, and everything outside of it."""

    orchestrator: Reviews
    worker: Reviews
    harness: Harness
    owner: asyncpg.Connection[Any]
    operator_dsn: str
    source: FakeSource
    critic: Critic
    channel: FakeChannel
    log: StringIO

    async def create(self, key: str = "k1", changelist: str = "shop:4f1c2aa", **asked: Any) -> Created:
        """Ask for a review."""
        given = {"idempotency_key": key, "changelist_id": changelist, "recipients": [TO], **asked}
        return await self.orchestrator.create_review(**given)

    async def read(self, created: Created) -> Review:
        """The same review as it stands now."""
        return await self.orchestrator.read_review(created.review.review_id)

    async def succeed(self, created: Created) -> Review:
        """Let it run to its good end."""
        await self.harness.work_until_idle()
        review = await self.read(created)
        assert review.status == "succeeded"
        return review

    async def stages(self, job_id: UUID) -> dict[str, int]:
        """The failed attempts of each stage that the job has touched."""
        rows = await self.owner.fetch("select stage, attempts from penstock.stages where job_id = $1", job_id)
        return {row["stage"]: row["attempts"] for row in rows}

    async def count(self, table: str) -> int:
        """How many rows there are."""
        return int(await self.owner.fetchval(f"select count(*) from {table}"))

    async def clear_delivery(self) -> None:
        """The only delivery was marked and never made: its provider knows nothing of it, and a redelivery is due."""
        delivery_id = await self.owner.fetchval("select delivery_id from review.deliveries")
        self.channel.sent.clear()
        operator = await asyncpg.connect(self.operator_dsn)
        assert await deliveries.suspect(operator, delivery_id)
        assert await deliveries.settle(operator, delivery_id, happened=False, who="sweep", proven=True) == "pending"
        await operator.close()

    async def letter(self) -> asyncpg.Record:
        """The only dead letter."""
        (row,) = await self.owner.fetch("select * from penstock.dead_letters")
        found: asyncpg.Record = row
        return found


class Thinking(FakeAdapter):
    """An adapter whose answers take a moment, so that several are under way together."""

    async def call(self, request: Request, *, seconds: float) -> Answer:
        await asyncio.sleep(0)
        return await super().call(request, seconds=seconds)


def away(error_class: FailureClass = FailureClass.UPSTREAM_5XX, times: int = 1) -> list[Exception]:
    """A failure so many times."""
    return [Failed(error_class) for _ in range(times)]


def side(dsn: str, source: FakeSource, critic: Critic | None, channel: FakeChannel, **settings: Any) -> Reviews:
    """The application as one login has it; without a critic of ours it asks as the settings say."""
    given = load_settings(dsn=dsn, **settings)
    app = Penstock(settings=given)
    channels = Channels(given)
    channels.use("smtp", channel)
    if critic is not None:
        provider = FakeProvider(answer=critic.answer)
        app.use_adapters({"openai_responses": lambda url: Thinking(provider, "openai_responses", base_url=url)})
    return Reviews(app, FakeSources({"shop": source}), channels)  # type: ignore[arg-type]  # stands in for the registry


MakeWorld = Callable[..., Any]


@pytest.fixture
async def make_world(dsn: str, role_dsn: Callable[[str], str], log: StringIO) -> AsyncIterator[MakeWorld]:
    """Make a world; the keywords are settings."""
    opened: list[World] = []

    async def make(**settings: Any) -> World:
        source, critic, channel = FakeSource(), Critic(), FakeChannel()
        outside = source, critic, channel
        orchestrator = side(role_dsn(ORCHESTRATOR), *outside, **settings)
        worker = side(role_dsn(WORKER), *outside, **settings)
        await orchestrator.app.open()
        harness = await Harness(worker.app, insecure=False).__aenter__()
        await harness.worker(adapters=lambda: worker.app.adapters)
        owner = await asyncpg.connect(dsn)
        harness.clock = Clock(owner)  # a worker may not wind it
        world = World(orchestrator, worker, harness, owner, role_dsn(OPERATOR), *outside, log)
        opened.append(world)
        return world

    yield make
    for world in opened:
        await world.harness.__aexit__(None, None, None)
        await world.orchestrator.app.close()
        await world.owner.close()


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    """A world that asks its critic at once."""
    made: World = await make_world()
    return made
