"""The stage `notify` by itself: reviews that are fetched and criticised already, and fake channels.

The worker is logged in as penstock_worker, so every statement is tried with
the rights that it will have.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from io import StringIO
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from penstock import Penstock
from penstock.apps.review import sweep
from penstock.apps.review.models import ReviewArgs
from penstock.apps.review.notify import notify
from penstock.channels.registry import Channels
from penstock.contract.contract_types import review_processing
from penstock.settings import load_settings
from penstock.store.roles import WORKER
from penstock.testing import Clock, Harness
from tests.apps.review.notify.channel import Provider
from tests.apps.review.notify.made import make_review
from tests.apps.review.notify.recorder import Recorder

ADA, BOB, EVE = "ada@example.org", "bob@example.org", "eve@example.org"


class Office:
    """What the stage needs of the application: channels, and connections."""

    def __init__(self, app: Penstock, channels: Channels) -> None:
        self.app = app
        self.channels = channels

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """One that the application has at hand: it has the same login, and this is a test of neither's pool."""
        async with (await self.app._open_producer()).connection() as connection:
            yield connection

    async def close(self) -> None:
        await self.channels.close()


@dataclass
class Post:
    """A review's way out: one office, its channels, the database and the clock."""

    harness: Harness
    owner: asyncpg.Connection[Any]
    office: Office
    mail: Provider
    hook: Provider
    events: list[Any]
    log: StringIO = field(default_factory=StringIO)

    # ------------------------------------------------------------------ reviews

    async def review(
        self,
        *to: str | tuple[str, str] | tuple[str, str, bool],
        version: int = 1,
        changelist: str = "shop:1",
        **job: Any,
    ) -> UUID:
        """A review that has everything but its deliveries; its job waits in the stage notify. Returns the review."""
        named = [(*(("smtp", one) if isinstance(one, str) else one), True)[:3] for one in to]
        return await make_review(self.owner, named, changelist=changelist, version=version, **job)

    async def work(self) -> None:
        """One attempt of everything that is due."""
        await (await self.harness.worker()).work()

    async def retry(self) -> None:
        """Let the backoff pass, then one attempt."""
        await self.harness.pass_time(minutes=5, seconds=1)
        await self.work()

    async def finish(self) -> None:
        """Everything until nothing waits."""
        await self.harness.work_until_idle()

    async def sweep(self) -> None:
        """One sweep over deliveries that nobody has confirmed, a while later."""
        await self.harness.pass_time(minutes=2)
        async with self.office.connection() as db:
            await sweep.reconcile(db, self.office.channels, limit=100)

    # --------------------------------------------------------------------- rows

    async def row(self, address: str = ADA, **where: Any) -> asyncpg.Record:
        """The delivery to *address*."""
        version = where.get("version", 1)
        found: asyncpg.Record | None = await self.owner.fetchrow(
            "select * from review.deliveries where recipient = lower($1) and review_version = $2", address, version
        )
        assert found is not None
        return found

    async def statuses(self) -> dict[str, str]:
        """Every delivery by its recipient."""
        rows = await self.owner.fetch("select recipient, status from review.deliveries")
        return {row["recipient"]: row["status"] for row in rows}

    async def set(self, address: str = ADA, **columns: str) -> None:
        """Change a delivery by hand; values are SQL."""
        assigned = ", ".join(f"{name} = {value}" for name, value in columns.items())
        await self.owner.execute(f"update review.deliveries set {assigned} where recipient = lower($1)", address)

    async def attempts(self, action: str | None = None) -> list[tuple[str, str]]:
        """The calls that were written down, in order."""
        rows = await self.owner.fetch(
            "select action, outcome from review.delivery_attempts "
            "where $1::text is null or action = $1 order by attempt_id",
            action,
        )
        return [tuple(row) for row in rows]

    async def job(self, review_id: UUID) -> asyncpg.Record:
        """The job of the review, as its last replay has it."""
        found: asyncpg.Record | None = await self.owner.fetchrow(
            "select n.* from review.reviews r join penstock.jobs j using (job_id) "
            "join penstock.jobs n on n.job_id = coalesce(j.superseded_by_job_id, j.job_id) where r.review_id = $1",
            review_id,
        )
        assert found is not None
        return found

    async def status(self, review_id: UUID) -> str:
        """The status of its job."""
        return str((await self.job(review_id))["status"])

    async def alerts(self) -> list[str]:
        """The kinds of all alerts, in order."""
        return [row["kind"] for row in await self.owner.fetch("select kind from penstock.alerts order by alert_id")]

    async def letter(self) -> asyncpg.Record:
        """The only dead letter."""
        (row,) = await self.owner.fetch("select * from penstock.dead_letters")
        found: asyncpg.Record = row
        return found

    async def replay(self) -> UUID:
        """An operator replays the only dead letter from its stage, along all steps."""
        from penstock.engine import dead_letters, replay

        letter_id = (await self.letter())["dead_letter_id"]
        await dead_letters.triage(self.owner, letter_id, "transient", operator="op")
        await dead_letters.remediate(self.owner, letter_id, "it is up again", operator="op")
        await dead_letters.validate(self.owner, letter_id, "T-1", replay_safe=True, operator="op")
        return await replay.replay(self.owner, letter_id, operator="op")


@pytest.fixture
async def post(dsn: str, role_dsn: Callable[[str], str], log: StringIO) -> AsyncIterator[Post]:
    """An office with a mail and a webhook channel, both fakes; its worker has the rights of one."""
    settings = load_settings(dsn=role_dsn(WORKER))
    app, channels = Penstock(settings=settings), Channels(settings)
    events: list[Any] = []
    mail, hook = Provider("smtp", events=events), Provider("webhook", events=events)
    channels.use("smtp", mail)
    channels.use("webhook", hook)
    office = Office(app, channels)
    policy = review_processing()
    declared = app.type(
        policy.job_type, **{f.name: getattr(policy, f.name) for f in fields_of(policy) if f.name != "job_type"}
    )
    for stage in ("fetch", "llm"):

        @declared.stage(stage, args=ReviewArgs)
        async def done(job: Any, args: ReviewArgs) -> None: ...

    @declared.stage("notify", args=ReviewArgs)
    async def tell(job: Any, args: ReviewArgs) -> dict[str, Any]:
        return await notify(office, job, args)  # type: ignore[arg-type]  # stands in for the whole application

    owner = await asyncpg.connect(dsn)
    harness = await Harness(app, insecure=False).__aenter__()
    harness.clock = Clock(owner)  # a worker may not wind it
    yield Post(harness, owner, office, mail, hook, events, log)
    await harness.__aexit__(None, None, None)
    await office.close()
    await owner.close()


@pytest.fixture
def recorder(post: Post, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Every statement and every call to a provider, in order."""
    recorder = Recorder(post.events)
    recorder.attach(monkeypatch)
    return recorder
