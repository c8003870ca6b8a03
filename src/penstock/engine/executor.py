"""Running one claim: decode, call the handler stage by stage, return one verdict.

Nothing is written here but the results of stages in between; the verdict goes
to the recorder, which is the only one that ends claims.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.contract.classify import Failure, classify
from penstock.contract.crash import CrashPoint, passing
from penstock.contract.errors import ArgumentsInvalid, Cancel, LeaseLost, Snooze
from penstock.contract.failures import FailureClass
from penstock.contract.payloads import encode
from penstock.contract.verdicts import Completed, Ended, Lost, Recorded, Requeued, Verdict, judge
from penstock.engine.job import Job, decode_result
from penstock.engine.running import Running, Stop
from penstock.store import claims as store
from penstock.telemetry import events, tracing
from penstock.telemetry.redaction import redact_stack

if TYPE_CHECKING:
    from penstock.engine.deadlines import Deadlines
    from penstock.engine.registry import StageHandler
    from penstock.engine.workplace import Workplace

_NO_DELAY = timedelta(0)
COMPLETED = Completed()
RECORDED = Recorded()
LOST = Lost()


class Executor:
    """Turns a claim into a verdict."""

    def __init__(self, place: Workplace, deadlines: Deadlines, concurrency: int) -> None:
        self._place = place
        self._deadlines = deadlines
        self._concurrency = concurrency
        self._threads: ThreadPoolExecutor | None = None
        self.abandoned = 0  # threads that did not stop when told; the process must recycle (C-63)

    async def execute(self, running: Running) -> tuple[Verdict, str]:
        """Run the claim's stages until the job ends or an attempt fails; the stack is redacted already."""
        running.started = time.perf_counter()
        try:
            verdict = await self._stages(running)
        except asyncio.CancelledError:
            if running.stop is None:
                raise
            return self._stopped(running)
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises has a verdict
            return self._raised(running, error)
        finally:
            running.seconds = time.perf_counter() - running.started
            if running.stop is not None:
                _uncancel()  # the slot lives on; the next job must not meet this one's cancellation
        if running.stop is not None and running.stop is not Stop.SHUTDOWN:
            return self._stopped(running)
        return verdict, ""

    async def _stages(self, running: Running) -> Verdict:
        claim, job_type = running.claim, running.job_type
        results: dict[str, Any] = {}
        if claim.staged:
            await self._load_stages(running, results)
        while True:
            handler = job_type.handlers.get(claim.stage) or job_type.handler(claim.stage)
            job = Job(running, self._place, results)
            result = await self._call(running, handler, job)
            passing(CrashPoint.AFTER_HANDLER)
            next_stage = job_type.policy.next_stage(claim.stage) if claim.staged else None
            if next_stage is None:
                return RECORDED if running.recorded else COMPLETED
            if running.recorded:
                result, running.recorded = job.saved, False
            else:
                text = None if result is None else encode(result, max_bytes=job_type.policy.max_payload_bytes)
                await store.advance(self._place.pool, self._place.worker_id, claim, next_stage, text)
            passing(CrashPoint.AFTER_STAGE_SAVED)
            results[claim.stage] = result
            claim.stage = next_stage
            running.attempts = 0

    async def _load_stages(self, running: Running, results: dict[str, Any]) -> None:
        running.attempts = 0
        for row in await store.stage_states(self._place.pool, running.claim.job_id):
            if row["finished"]:
                results[row["stage"]] = decode_result(row["result"])
            if row["stage"] == running.claim.stage:
                running.attempts = row["attempts"]

    async def _call(self, running: Running, handler: StageHandler, job: Job) -> Any:
        timeout = running.job_type.policy.timeout
        if timeout is not None:
            running.deadline = asyncio.get_running_loop().time() + timeout.total_seconds()
            self._deadlines.watch(running.deadline)
        arguments: list[Any] = [job] if handler.takes_job else []
        if handler.takes_args:
            arguments.append(handler.decode(running.claim.payload))
        passing(CrashPoint.MID_HANDLER)
        if tracing.enabled():
            with tracing.job_span(running.claim):
                return await self._invoke(running, handler, arguments)
        if handler.is_async:
            return await handler.call(*arguments)
        return await self._invoke(running, handler, arguments)

    async def _invoke(self, running: Running, handler: StageHandler, arguments: list[Any]) -> Any:
        if handler.is_async:
            return await handler.call(*arguments)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="penstock-handler")
        future = asyncio.get_running_loop().run_in_executor(self._threads, lambda: handler.call(*arguments))
        try:
            return await future
        except asyncio.CancelledError:
            if not future.done() or future.cancelled():
                self.abandoned += 1
                events.handler_abandoned(running.claim)
            raise

    def _raised(self, running: Running, error: BaseException) -> tuple[Verdict, str]:
        match error:
            case Snooze():
                return Requeued(error.delay), ""
            case Cancel():
                return Ended("canceled by its handler"), ""
            case LeaseLost():
                return LOST, ""
            case KeyboardInterrupt() | SystemExit() | GeneratorExit():
                raise error
        if running.stop is not None or running.recorded:
            return self._stopped(running)
        policy = running.job_type.policy
        if isinstance(error, ArgumentsInvalid):
            failure = Failure(FailureClass.SCHEMA_INVALID, retryable=False)
        else:
            failure = classify(error, idempotent=policy.idempotent, unknown_retryable=policy.unknown_retryable)
        stack = redact_stack(error, messages=policy.error_messages)
        return self._judged(running, failure), stack

    def _stopped(self, running: Running) -> tuple[Verdict, str]:
        """The verdict on a handler that did not end by itself, or raised after it had ended its stage."""
        if running.recorded:
            if running.job_type.policy.next_stage(running.claim.stage) is None:
                return RECORDED, ""
            return Requeued(delay=_NO_DELAY), ""
        match running.stop:
            case Stop.TIMEOUT:
                failure = Failure(FailureClass.HANDLER_TIMEOUT, retryable=True)
                return self._judged(
                    running, failure
                ), f"HANDLER_TIMEOUT in stage {running.claim.stage}: stopped at its time limit"
            case Stop.SHUTDOWN:
                return Requeued(delay=_NO_DELAY, code="SHUTDOWN"), ""
            case _:
                return LOST, ""

    def _judged(self, running: Running, failure: Failure) -> Verdict:
        running.attempts += 1
        return judge(failure, running.attempts, running.claim.max_attempts, running.job_type.policy, self._place.random)

    def close(self) -> None:
        """Let go of the threads; those that hang are left behind."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _uncancel() -> None:
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
