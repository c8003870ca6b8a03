"""Sending one batch: intent, upload, create, mark. In this order, and each step knows what a crash leaves behind.

Before the intent nothing has happened. After it the jobs are held by the
intent, whoever dies, until a mark or a recovery ends it. An upload changes
nothing that matters. Between the create and its mark lies the only doubt; it
is settled by asking the provider, never by sending again (C-36).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, TypeVar

from penstock.contract.classify import classify
from penstock.contract.crash import CrashPoint, passing
from penstock.contract.errors import Failed, NotPerformed
from penstock.contract.failures import FailureClass
from penstock.engine.patience import persist, uninterrupted
from penstock.providers.port import Submission
from penstock.store import connect, submissions
from penstock.store.claims import Requeue
from penstock.store.submissions import Taken
from penstock.telemetry import batch_events, events

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from penstock.engine.batches.packing import Part, Shelf
    from penstock.engine.registry import JobType
    from penstock.engine.runs import Run
    from penstock.engine.tally import Tally
    from penstock.engine.workplace import Workplace
    from penstock.providers.port import BatchAdapter, Created, Uploaded

    T = TypeVar("T")

LONGEST: Final = 900.0  # seconds that an upload or a create may take
PAUSE: Final = 300.0  # seconds that may pass between the two, such as for a database that is away
LATEST: Final = timedelta(seconds=2 * LONGEST + PAUSE)  # from the intent to the end of the create
LONGEST_WAIT: Final = timedelta(days=1)  # whatever a provider's Retry-After says
SHUTDOWN: Final = "SHUTDOWN"
# Failures that pass by themselves. Everything else would meet the next batch as well: the type is held back (C-37 e).
_PASSING: Final = frozenset(
    {
        FailureClass.NETWORK_TIMEOUT,
        FailureClass.NETWORK_RESET,
        FailureClass.DNS_FAILURE,
        FailureClass.UPSTREAM_5XX,
        FailureClass.HANDLER_TIMEOUT,
    }
)


class Sent(Enum):
    """What became of one part."""

    DONE = auto()
    SHRUNK = auto()  # some claims were lost before the intent: nothing is written, pack again
    RELEASED = auto()  # not taken, and its jobs went back; another batch may fare better
    REFUSED = auto()  # the same, and the type is held back
    DOUBTED = auto()  # for a recovery
    LOST = auto()  # a recovery has taken it over


class _Halted(Exception):
    """The run must end now; the call in hand was cut off."""


class Sender:
    """Sends the parts of one run, one at a time."""

    def __init__(self, place: Workplace, tally: Tally, run: Run, overflow: timedelta) -> None:
        self._place = place
        self._tally = tally
        self._run = run
        self._overflow = overflow
        self._call: asyncio.Future[Any] | None = None
        self._halted = False
        self.back_off = overflow  # how long what was given back last has to wait
        self.code: str | None = None  # … and why

    def halt(self) -> None:
        """Cut off the call in hand, and make no other."""
        self._halted = True
        if self._call is not None:
            self._call.cancel()

    async def send(self, shelf: Shelf, part: Part, adapter: BatchAdapter) -> Sent:
        """Take *part* to its provider."""
        passing(CrashPoint.BEFORE_BATCH_INTENT)
        begun = asyncio.get_running_loop().time()
        submission = await self._intend(shelf, part)
        if submission is None:
            return Sent.SHRUNK
        passing(CrashPoint.AFTER_BATCH_INTENT)
        try:
            uploaded = await self._outside(adapter.upload(submission))
        except Exception as error:  # an input without a batch is nothing: whatever it was, nothing has begun
            return await self._give_back(shelf, part, error)
        passing(CrashPoint.AFTER_BATCH_UPLOAD)
        if not await persist("batch", lambda: submissions.in_hand(self._place.pool, part.batch_id)):
            return self._lose(shelf, part)
        if asyncio.get_running_loop().time() - begun > LONGEST + PAUSE:  # a recovery would not look so far ahead
            return await self._give_back(shelf, part, TimeoutError())
        return await self._create(shelf, part, adapter, submission, uploaded)

    async def refuse(self, job_type: JobType, error: Failed) -> timedelta:
        """Hold a type back that has no way to its provider; returns for how long its jobs must wait."""
        code, _, delay, _ = self._verdict(error)
        self.back_off, self.code = max(delay, job_type.policy.breaker.cooldown), code
        pool = self._place.pool
        await persist("breaker", lambda: submissions.hold_back(pool, job_type.name, code, error.why, self.back_off))
        self._count(code)
        return self.back_off

    async def _intend(self, shelf: Shelf, part: Part) -> Submission | None:
        draft = part.draft(shelf, self._run.run_id)
        pool, worker = self._place.pool, self._place.worker_id
        intended = await persist("batch intent", lambda: submissions.intend(pool, worker, draft))
        gone = [m for m in part.members if m.running.claim.job_id not in intended.owned]
        for member in gone:
            self._tally.lost(member.running)
        part.members = [m for m in part.members if m.running.claim.job_id in intended.owned]
        if gone:
            return None
        return Submission(
            part.batch_id, shelf.key.group.model, part.lines, intended.at, f"{shelf.job_type} {shelf.stage}"
        )

    async def _create(
        self, shelf: Shelf, part: Part, adapter: BatchAdapter, submission: Submission, uploaded: Uploaded
    ) -> Sent:
        try:
            created = await self._outside(adapter.create(submission, uploaded))
        except NotPerformed as error:
            return await self._give_back(shelf, part, error)
        except Exception as error:
            return await self._doubt(shelf, part, error)
        passing(CrashPoint.AFTER_BATCH_CREATE)
        return await uninterrupted(self._mark(shelf, part, adapter, created))

    async def _mark(self, shelf: Shelf, part: Part, adapter: BatchAdapter, created: Created) -> Sent:
        pool, worker = self._place.pool, self._place.worker_id
        taken = taken_of(adapter, created)
        mark = await persist("batch mark", lambda: submissions.mark(pool, part.batch_id, taken, worker=worker))
        passing(CrashPoint.AFTER_BATCH_MARK)
        if not mark.marked:
            state, provider_id = await persist("batch mark", lambda: submissions.standing(pool, part.batch_id))
            if provider_id != created.provider_batch_id:
                return await self._too_late(shelf, part, adapter, created, state)
        self._tally.submitted([member.running for member in part.members])
        batch_events.batch_submitted(part.batch_id, shelf.job_type, len(part.lines), part.size)
        return Sent.DONE

    async def _too_late(self, shelf: Shelf, part: Part, adapter: BatchAdapter, created: Created, state: str) -> Sent:
        """A recovery was quicker. One that is still looking will find this batch; one that has given up will not."""
        if state in ("abandoned", "submitted", "collected"):
            try:
                await self._outside(adapter.cancel(created.provider_batch_id))
                await persist(
                    "orphan", lambda: submissions.orphaned(self._place.pool, part.batch_id, created.provider_batch_id)
                )
            except connect.AWAY:
                raise
            except Exception as error:  # the watch over given-up submissions goes on
                events.internal_error("batch cancel", type(error).__name__)
        return self._lose(shelf, part)

    async def _give_back(self, shelf: Shelf, part: Part, error: Exception) -> Sent:
        """Nobody's attempt counts; what the next batch would meet as well holds the type back."""
        code, opens, delay, upstream = self._verdict(error)
        pool, worker = self._place.pool, self._place.worker_id
        cooldown = part.members[0].running.job_type.policy.breaker.cooldown
        self.back_off, self.code = max(delay, cooldown if opens else delay), code
        released = await uninterrupted(
            persist(
                "batch release",
                lambda: submissions.release(
                    pool, worker, part.batch_id, code, upstream, delay=self.back_off, opens_breaker=opens
                ),
            )
        )
        for member in part.members:
            move = Requeue(member.running.claim, self.back_off, charged=False, code=code)
            self._tally.requeued(member.running, move, lost=member.running.claim.job_id not in released.jobs)
        self._count(code)
        batch_events.batch_released(
            part.batch_id, shelf.job_type, len(part.lines), code, breaker_opened=released.opened
        )
        return Sent.REFUSED if opens else Sent.RELEASED

    def _verdict(self, error: Exception) -> tuple[str, bool, timedelta, str | None]:
        """Its class, whether the next batch would meet it too, how long to wait, and the provider's own code."""
        if isinstance(error, _Halted):
            return SHUTDOWN, False, timedelta(0), None
        failure = classify(error, idempotent=True)
        wait = min(failure.retry_after or timedelta(0), LONGEST_WAIT)
        opens, delay = failure.error_class not in _PASSING, max(self._overflow, wait)
        return str(failure.error_class), opens, delay, failure.upstream_code

    async def _doubt(self, shelf: Shelf, part: Part, error: Exception) -> Sent:
        code = SHUTDOWN if isinstance(error, _Halted) else str(classify(error, idempotent=True).error_class)
        pool, worker = self._place.pool, self._place.worker_id
        await uninterrupted(persist("batch doubt", lambda: submissions.doubt(pool, worker, part.batch_id, code)))
        for member in part.members:
            self._tally.left(member.running)
        self._count(code)
        batch_events.batch_uncertain(part.batch_id, shelf.job_type, len(part.lines), code)
        return Sent.DOUBTED

    def _lose(self, shelf: Shelf, part: Part) -> Sent:
        for member in part.members:
            self._tally.left(member.running)
        batch_events.batch_lost(part.batch_id, shelf.job_type, len(part.lines))
        return Sent.LOST

    def _count(self, code: str) -> None:
        self._run.by_error[code] += 1
        self._run.rate_limited += code == FailureClass.RATE_LIMITED

    async def _outside(self, work: Coroutine[Any, Any, T]) -> T:
        """Let the provider work, within bounds; `_Halted` when the run had to end first."""
        self._call = call = asyncio.ensure_future(work)
        if self._halted:
            call.cancel()
        try:
            async with asyncio.timeout(LONGEST):
                return await call
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise _Halted from None
        finally:
            self._call = None


def taken_of(adapter: BatchAdapter, created: Created) -> Taken:
    """What is kept of a batch that the provider has; a batch without an expiry gets the provider's usual one (C-05)."""
    return Taken(
        created.provider_batch_id,
        created.input_file_id,
        created.expires_at,
        adapter.limits.window,
        adapter.limits.margin,
    )
