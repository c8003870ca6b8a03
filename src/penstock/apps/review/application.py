"""The application: one `Penstock` with the type `review_processing`, its sources and its channels.

The side that asks for reviews logs in as penstock_orchestrator, the side that
fetches, asks and tells as penstock_worker. Each builds its own `Reviews` from
the same settings.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from penstock.apps.review import statuses
from penstock.apps.review.creation import Creation
from penstock.apps.review.critic import SCHEMA
from penstock.apps.review.models import FETCH, JOB_TYPE, LLM, NOTIFY, ReviewArgs
from penstock.apps.review.stages import Stages
from penstock.apps.review.sweep import reconcile_function
from penstock.contract.contract_types import review_processing
from penstock.contract.policies import Dispatch
from penstock.engine.app import Penstock
from penstock.engine.own_connections import OwnPool, PerLoop
from penstock.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from uuid import UUID

    from penstock.apps.review.creation import Created
    from penstock.apps.review.models import Review
    from penstock.apps.review.sources.registry import Sources
    from penstock.channels.registry import Channels
    from penstock.engine.registry import JobType
    from penstock.store.connect import Pooled

LOG_IDS: Final = ("review_id",)
READERS: Final = 4  # connections of the application's own, beside the engine's


class Reviews:
    """What both sides share: the engine, where changelists come from, and how people are told."""

    def __init__(self, app: Penstock, sources: Sources, channels: Channels) -> None:
        self.app = app
        self.sources = sources
        self.channels = channels
        self.creation = Creation(self)
        self.stages = Stages(self)
        self._pools = PerLoop(lambda: OwnPool(app, size=READERS, name="penstock review"))
        app.on_close(self.disconnect)
        self.type = _declared(self)
        app.functions.add(reconcile_function(channels, app.settings.reconcile_seconds))

    async def create_review(self, **asked: Any) -> Created:
        """Make a review, or return the one that is there; see `Creation.create_review`."""
        return await self.creation.create_review(**asked)

    async def read_review(self, review_id: UUID) -> Review:
        """A review as it stands, with its findings once they are complete; `NotFound` for none."""
        async with self.connection() as connection:
            return await statuses.read_review(connection, review_id)

    async def list_reviews(self, changelist_id: str | None = None, *, limit: int = 50) -> list[Review]:
        """The newest reviews, without findings and deliveries."""
        async with self.connection() as connection:
            return await statuses.list_reviews(connection, changelist_id, limit=limit)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Pooled]:
        """A connection of the application's own, in no transaction."""
        async with self._pools.here.connection() as connection:
            yield connection

    async def disconnect(self) -> None:
        """Give the connections of this event loop back, to the database and to those who tell people."""
        opened = self._pools.forget()
        if opened is not None:
            await opened.close()
        await self.channels.close()


def _declared(reviews: Reviews) -> JobType:
    """The type with the policy of its contract. In a batch the critic's stage is parked, so its runs are scheduled."""
    batch = reviews.app.settings.review_execution == "batch"
    policy = review_processing()
    if batch:
        policy = replace(policy, dispatch=Dispatch.SCHEDULED)
    given = {one.name: getattr(policy, one.name) for one in fields(policy) if one.name != "job_type"}
    declared = reviews.app.type(JOB_TYPE, log_ids=LOG_IDS, **given)
    stages = reviews.stages
    declared.stage(FETCH, args=ReviewArgs)(stages.fetch)
    if batch:
        declared.lane(LLM, build=stages.build, accept=stages.accept, schema=SCHEMA, args=ReviewArgs)
    else:
        declared.stage(LLM, args=ReviewArgs)(stages.criticise)
    declared.stage(NOTIFY, args=ReviewArgs)(stages.notify)
    return declared


def review_app(settings: Settings | None = None, **overrides: Any) -> Reviews:
    """The application from *settings*, or from the environment with *overrides* before it.

    Refuses to begin with sources that do not hold together.
    """
    from penstock.apps.review.sources.registry import load_sources  # with these come the extras of the application
    from penstock.channels.registry import Channels

    given = settings or load_settings(**overrides)
    sources = load_sources(given.review_sources)
    return Reviews(Penstock(settings=given), sources, Channels(given))


@cache
def reviews() -> Reviews:
    """The application of this process, built from the environment when first asked for."""
    return review_app()
