"""Running one claim: decode, call the handler stage by stage, return one verdict.

Nothing is written here but the results of stages in between; the verdict goes
to the recorder, which is the only one that ends claims.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.contract.crash import CrashPoint, passing
from penstock.contract.errors import LeaseLost, SettingsInvalid
from penstock.contract.payloads import encode
from penstock.contract.verdicts import Completed, Ended, Lost, Parked, Recorded, Requeued, Verdict
from penstock.engine import failing
from penstock.engine.effects import decode_result
from penstock.engine.job import Job
from penstock.engine.patience import persist
from penstock.engine.running import Running, Stop
from penstock.engine.threads import Threads
from penstock.store import claims as store
from penstock.store import stages
from penstock.telemetry import events, tracing

if TYPE_CHECKING:
    from penstock.engine.deadlines import Deadlines
    from penstock.engine.registry import StageHandler
    from penstock.engine.workplace import Workplace

_NO_DELAY: Final = timedelta(0)
COMPLETED: Final = Completed()
RECORDED: Final = Recorded()
LOST: Final = Lost()


class Executor:
    """Turns a claim into a verdict."""

    def __init__(self, place: Workplace, deadlines: Deadlines, concurrency: int) -> None:
        self._place = place
        self._deadlines = deadlines
        self._threads = Threads(concurrency)
        self._unstoppable = 0

    @property
    def abandoned(self) -> int:
        """Handlers that did not stop when told; the process must recycle (C-63)."""
        return self._threads.abandoned + self._unstoppable

    def watch_halted(self) -> None:
        """Look again at handlers that are being told to stop."""
        self._deadlines.watch_halted()

    def abandon(self, running: Running) -> tuple[Verdict, str]:
        """The verdict on a coroutine that goes on although it was cancelled; the fence keeps it out from now on."""
        self._unstoppable += 1
        events.handler_abandoned(running.claim)
        running.seconds = time.perf_counter() - running.started
        running.deadline = None
        return self._stopped(running)

    async def execute(self, running: Running) -> tuple[Verdict, str]:
        """Run the claim's stages until the job ends or an attempt fails; the stack is redacted already.

        Whoever of ours stops a handler says so in `running.stop` first. A
        cancellation without that is the handler's own doing, and how its
        attempt has failed.
        """
        running.started = time.perf_counter()
        try:
            verdict = await self._stages(running)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._raised(running, error)
        finally:
            running.seconds = time.perf_counter() - running.started
            running.deadline = None  # the handler has ended; its lease is renewed until that is recorded
        if running.stop is not None and running.stop is not Stop.SHUTDOWN:
            return self._stopped(running)
        return verdict, ""

    async def _stages(self, running: Running) -> Verdict:
        claim, job_type = running.claim, running.job_type
        staged = claim.staged or len(job_type.policy.stages) > 1
        results: dict[str, Any] = {}
        if claim.staged:
            await self._load_stages(running, results)
        while True:
            handler = job_type.handlers.get(claim.stage) or job_type.handler(claim.stage)
            job = Job(running, self._place, results)
            result = await self._call(running, handler, job)
            passing(CrashPoint.AFTER_HANDLER)
            if type(result) is Parked:
                return self._parked(running, result)
            next_stage = job_type.policy.next_stage(claim.stage) if staged else None
            if next_stage is None:
                return RECORDED if running.recorded else COMPLETED
            if running.stop is not None and running.stop is not Stop.SHUTDOWN:
                return LOST  # stopped, and the handler kept it to itself; `execute` knows what follows
            results[claim.stage] = await self._saved(running, job, next_stage, result)
            claim.stage, claim.staged = next_stage, True
            running.attempts = 0
            if running.stop is Stop.SHUTDOWN:
                return Requeued(_NO_DELAY, "SHUTDOWN")

    def _parked(self, running: Running, request: Parked) -> Parked:
        if self._place.parking is None:
            raise SettingsInvalid(
                f"jobs of type {running.claim.job_type!r} go to a provider's batch, which only its submitter can do; "
                "run that function, or give the request a route with execution='async'"
            )
        return request

    async def _load_stages(self, running: Running, results: dict[str, Any]) -> None:
        running.attempts = 0
        for row in await persist("stages", lambda: store.stage_states(self._place.pool, running.claim.job_id)):
            if row["finished"]:
                results[row["stage"]] = decode_result(row["result"])
            if row["stage"] == running.claim.stage:
                running.attempts = row["attempts"]

    async def _saved(self, running: Running, job: Job, next_stage: str, result: Any) -> Any:
        """Save the result of a stage that is not the last; what the next one sees is the same now and after a crash."""
        if running.recorded:
            running.recorded = False
            if result is not None and result != job.saved:
                events.result_dropped(running.claim)
            return job.saved
        text = None if result is None else encode(result, max_bytes=running.job_type.policy.max_payload_bytes)
        await persist("stage", lambda: self._advance(running, next_stage, text))
        passing(CrashPoint.AFTER_STAGE_SAVED)
        return decode_result(text)

    async def _advance(self, running: Running, next_stage: str, text: str | None) -> None:
        """A try whose reply was lost has moved the job on already; that is no lost lease."""
        place, claim = self._place, running.claim
        try:
            await store.advance(place.pool, place.worker_id, claim, next_stage, text)
        except LeaseLost:
            if await stages.progress(place.pool, place.worker_id, claim) != ("processing", next_stage):
                raise

    async def _call(self, running: Running, handler: StageHandler, job: Job) -> Any:
        if handler.timeout is not None:
            running.deadline = asyncio.get_running_loop().time() + handler.timeout
            self._deadlines.watch(running.deadline)
        arguments: list[Any] = [job] if handler.takes_job else []
        if handler.takes_args:
            arguments.append(handler.decode(running.claim.payload))
        passing(CrashPoint.MID_HANDLER)
        if tracing.enabled():
            with tracing.job_span(running.claim):
                return await self._invoke(running, handler, job, arguments)
        if handler.is_async:
            return await handler.call(*arguments)
        return await self._invoke(running, handler, job, arguments)

    async def _invoke(self, running: Running, handler: StageHandler, job: Job, arguments: list[Any]) -> Any:
        if handler.is_async:
            return await handler.call(*arguments)
        job.runs_in_thread(asyncio.get_running_loop())
        return await self._threads.run(running.claim, handler.call, arguments)

    def _raised(self, running: Running, error: BaseException) -> tuple[Verdict, str]:
        asked = failing.asked_for(error, messages=running.job_type.policy.error_messages)
        if running.recorded:
            if running.stop is None:
                events.raised_after_end(running.claim, type(error).__name__)
            return self._ended(running, asked), ""
        if asked == LOST:
            return LOST, ""
        if running.stop is not None:
            return self._stopped(running)
        if asked is not None:
            return asked, ""
        return failing.judged(running, error, self._place.random)

    def _stopped(self, running: Running) -> tuple[Verdict, str]:
        """The verdict on a handler that was told to stop."""
        if running.recorded:
            return self._ended(running, None), ""
        match running.stop:
            case Stop.TIMEOUT:
                return failing.timed_out(running, self._place.random)
            case Stop.SHUTDOWN:
                return Requeued(_NO_DELAY, "SHUTDOWN"), ""
            case _:
                return LOST, ""

    @staticmethod
    def _ended(running: Running, asked: Verdict | None) -> Verdict:
        """`job.transaction()` has ended the stage; whatever came afterwards does not undo that."""
        if running.job_type.policy.next_stage(running.claim.stage) is None:
            return RECORDED
        return asked if isinstance(asked, Requeued | Ended) else Requeued(_NO_DELAY)

    def close(self) -> None:
        """Let go of the threads; those that hang are left behind."""
        self._threads.close()
