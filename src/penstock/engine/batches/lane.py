"""The face of the lane: a stage that asks a model, said in three functions.

`build` makes one request from one job, `accept` judges the answer, `persist`
stores what was accepted in the transaction that ends the stage. The route of
the request decides how it travels: `batch` parks the job for the submitter,
`async` asks at once. The same three functions serve both (Q-72). A `build`
that returns None has nothing to ask: the work was done before (A-60).
"""

from __future__ import annotations

import asyncio
import inspect
import json
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from penstock.contract.calls import Execution, Request
from penstock.contract.errors import SettingsInvalid
from penstock.contract.verdicts import Parked
from penstock.engine.callables import is_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime, timedelta
    from uuid import UUID

    from penstock.contract.calls import Answer
    from penstock.contract.policies import Policy
    from penstock.engine.job import Job
    from penstock.store.claims import Transaction

    Step = Callable[..., Any]


class LaneJob(Protocol):
    """What `build`, `accept` and `persist` get to know of their job, in a handler and at the collector's."""

    @property
    def job_id(self) -> UUID:
        """The id of the job."""

    @property
    def root_job_id(self) -> UUID:
        """The id of the job that this one replays, or its own."""

    @property
    def job_type(self) -> str:
        """The type's name."""

    @property
    def stage(self) -> str:
        """The stage that asks."""

    @property
    def attempt(self) -> int:
        """The ordinal of this attempt of the stage, from 1."""

    @property
    def claim_seq(self) -> int:
        """The fence of the claim that asked."""

    @property
    def created_at(self) -> datetime:
        """When the job was enqueued."""

    @property
    def policy(self) -> Policy:
        """The policy of the type."""

    def result(self, stage: str) -> Any:
        """What the finished *stage* returned."""


@dataclass(frozen=True, slots=True)
class LaneStage:
    """One stage of the lane. Its functions may be plain or async; plain ones run in a thread."""

    build: Step  # (job, args) -> Request, or None when there is nothing to ask
    accept: Step  # (job, args, answer) -> result; raises `Failed` to refuse
    persist: Step | None = None  # async (job, args, result, connection)
    decode: Callable[[str], Any] = json.loads  # from the stored payload to `args`
    schema: Mapping[str, Any] | None = field(default=None, repr=False)  # what every answer must fit before `accept`
    around: Step | None = None  # (job, args) -> async context manager, held while a single call is under way

    async def request(self, job: LaneJob, args: Any) -> Request | None:
        """The question of one job, or None; anything else that `build` returns is a mistake in it."""
        request = await _called(self.build, job, args)
        if request is None:
            return None
        if not isinstance(request, Request):
            raise SettingsInvalid(f"build of {job.job_type!r} must return a Request, not {type(request).__name__}")
        if request.schema is None:
            return replace(request, schema=self.schema)
        if request.route.execution is Execution.BATCH and request.schema != self.schema:
            raise SettingsInvalid(
                f"build of {job.job_type!r} asks for a schema of its own in a batch, where nobody could check the "
                "answer against it a day later; declare it once, as schema=... of the lane"
            )
        return request

    def fitting(self, answer: Answer) -> Answer:
        """*answer* with its data, which fits the schema of the lane; `Failed(SCHEMA_INVALID)` if it does not."""
        if self.schema is None:
            return answer
        from penstock.providers.answers import fit  # the validator comes with the extras of the providers

        return fit(answer, self.schema)

    async def accepted(self, job: LaneJob, args: Any, answer: Answer) -> Any:
        """What the type makes of *answer*; raises what `accept` raises."""
        return await _called(self.accept, job, args, answer)

    async def persisted(self, job: LaneJob, args: Any, result: Any, connection: Transaction) -> None:
        """Store *result* in the transaction of *connection*, which also ends the stage (C-60)."""
        if self.persist is not None:
            await self.persist(job, args, result, connection)

    def held(self, job: LaneJob, args: Any) -> AbstractAsyncContextManager[Any]:
        """What is held while a single call of *job* is under way."""
        return nullcontext() if self.around is None else self.around(job, args)

    def __post_init__(self) -> None:
        if self.persist is not None and not is_async(self.persist):
            raise SettingsInvalid("persist must be async: it shares the event loop's connection with the engine")


@dataclass(frozen=True, slots=True)
class LaneSchedule:
    """Names, cadences and bounds of a lane's two functions; None takes the profile's."""

    submitter: str | None = None  # none: `<type>_batch_submitter`
    collector: str | None = None  # none: `<type>_batch_collector`
    submit_every: timedelta | None = None  # none: the profile's 15 minutes
    collect_every: timedelta | None = None  # none: the profile's 30 minutes
    collector_cap: int | None = None  # items per run; none: the profile's, or twice what is submitted
    batches_per_run: int = 50  # submissions that one run may make; what is left over goes back (C-26)

    def __post_init__(self) -> None:
        for name in ("collector_cap", "batches_per_run"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingsInvalid(f"{name} of a lane must be at least 1, not {value}")


def handler_of(lane: LaneStage) -> Callable[[Job, Any], Awaitable[Any]]:
    """The handler that runs under a claim: build, then park or ask."""

    async def run(job: Job, args: Any) -> Any:
        request = await lane.request(job, args)
        if request is None:
            return None
        if request.route.execution is Execution.BATCH:
            return Parked(request)
        async with lane.held(job, args):
            answer = await job.ask(request)
        result = await lane.accepted(job, args, answer)
        if lane.persist is None:
            return result
        async with job.transaction(result) as connection:
            await lane.persisted(job, args, result, connection)
        return None  # the transaction has saved it

    return run


async def _called(step: Step, *arguments: Any) -> Any:
    if is_async(step):
        return await step(*arguments)
    answer = await asyncio.to_thread(step, *arguments)
    return await answer if inspect.isawaitable(answer) else answer
