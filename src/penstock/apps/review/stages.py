"""The stages of a review: fetch the changelist, have it criticised, tell everybody.

Each looks at the tables first. A changelist that is there is not fetched
again, a part that is answered is not asked about again, so a stage that is
repeated, replayed or killed in the middle goes on where it was. What a stage
returns is a reference; text stays in the tables of the application.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.apps.review import repository
from penstock.apps.review.critic import findings_of, request_of
from penstock.apps.review.cutting import cut
from penstock.apps.review.diff import parse, restore
from penstock.apps.review.notify import notify
from penstock.apps.review.repository import Artifact
from penstock.apps.review.storing import stored
from penstock.contract.calls import Execution, Route
from penstock.contract.errors import EnqueueRefused, Failed, Snooze
from penstock.contract.failures import FailureClass, is_retryable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeVar

    from penstock.apps.review.application import Reviews
    from penstock.apps.review.cutting import Part
    from penstock.apps.review.models import Facts, Fetched, ReviewArgs
    from penstock.apps.review.repository import StoredReview
    from penstock.apps.review.sources.port import Source
    from penstock.contract.calls import Answer, Request
    from penstock.engine.batches.lane import LaneJob
    from penstock.engine.job import Job
    from penstock.store.connect import Pooled

    T = TypeVar("T")

AT_ONCE: Final = 4  # questions of one review that are under way together
LANE: Final = "review"


@dataclass(frozen=True, slots=True)
class Work:
    """What the critic still has to be asked about."""

    facts: Facts
    parts: tuple[Part, ...] = field(repr=False)
    answered: frozenset[int]

    @property
    def left(self) -> list[Part]:
        """The parts without an answer, the first one first."""
        return [part for part in self.parts if part.number not in self.answered]

    def part(self, number: int) -> Part:
        """The part of this number."""
        return next(part for part in self.parts if part.number == number)


class Stages:
    """The handlers of `fetch` and `llm`, at once or in a batch, and the way to that of `notify`."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    # ------------------------------------------------------------------ fetch

    async def fetch(self, _job: Job, args: ReviewArgs) -> dict[str, str]:
        """Get the changelist from its source, once and for all (E-26)."""
        review = await self._review(args)
        if not await self._store(lambda db: repository.has_artifact(db, args.review_id)):
            name, _, ref = review.changelist_id.partition(":")
            limit = self._reviews.app.settings.review_max_diff_bytes
            fetched = await self._source(name).fetch(ref, max_bytes=limit)
            artifact = await asyncio.to_thread(self._artifact, fetched)
            await self._store(lambda db: repository.store_artifact(db, args.review_id, artifact))
        return _reference(args)

    def _source(self, name: str) -> Source:
        try:
            return self._reviews.sources.get(name)
        except EnqueueRefused as unknown:
            raise Failed(FailureClass.CONFIG_INVALID, str(unknown)) from None

    def _artifact(self, fetched: Fetched) -> Artifact:
        """What is kept of it: text that can be shown and cut; a changelist with nothing in it is final."""
        settings = self._reviews.app.settings
        changes = parse(fetched.raw)
        if not changes.files and not changes.skipped:
            raise Failed(FailureClass.PAYLOAD_REJECTED, "the changelist changes nothing")
        tokens = settings.review_part_tokens
        parts = cut(changes, tokens=tokens, most=settings.review_max_parts)
        return Artifact(fetched.revision, fetched.facts, changes.text, changes.skipped, tokens, len(parts))

    # -------------------------------------------------------------------- llm

    async def criticise(self, job: Job, args: ReviewArgs) -> dict[str, str]:
        """Ask about every part that has no answer, a few at once; each answer is kept as it comes.

        When one fails, those under way are waited for and kept, and no other is
        asked in this attempt.
        """
        work = await self._work(args)
        gate, failures = asyncio.Semaphore(AT_ONCE), list[BaseException]()

        async def one(part: Part) -> None:
            async with gate:
                if failures:
                    return
                try:
                    answer = await job.ask(request_of(work.facts, part, self.route()))
                    await self._keep(args, part, answer)
                except Exception as error:
                    failures.append(error)

        await asyncio.gather(*(one(part) for part in work.left))
        if failures:
            raise gravest(failures)
        return _reference(args)

    async def build(self, job: LaneJob, args: ReviewArgs) -> Request | None:
        """The question about the first part without an answer; None when all have theirs."""
        work = await self._work(args)
        if not work.left:
            return None
        first, claim = work.left[0].number, (job.job_id, job.claim_seq, args.review_id)
        number = await self._store(lambda db: repository.bind_question(db, *claim, first))
        return request_of(work.facts, work.part(number), self.route())

    async def accept(self, job: LaneJob, args: ReviewArgs, answer: Answer) -> dict[str, str]:
        """Keep the answer about the part that this claim asked about; the job comes back for the next one.

        Coming back costs no attempt. An answer that is shown a second time,
        because the collector died in between, changes nothing.
        """
        number = await self._store(lambda db: repository.bound_question(db, job.job_id, job.claim_seq))
        if number is None:
            raise Failed(FailureClass.BATCH_ITEM_AMBIGUOUS, "nobody knows which part was asked about; replay the stage")
        work = await self._work(args)
        await self._keep(args, work.part(number), answer)
        if any(part.number != number for part in work.left):
            raise Snooze(timedelta(0))
        return _reference(args)

    def route(self) -> Route:
        """Where the critic is, and how it is asked."""
        settings = self._reviews.app.settings
        execution = Execution(settings.review_execution)
        return Route.to(settings.review_model, settings.review_model_url, execution=execution, lane=LANE)

    async def _work(self, args: ReviewArgs) -> Work:
        """The changelist, cut as it was when it was fetched, and what is answered of it."""
        artifact = await self._store(lambda db: repository.load_artifact(db, args.review_id))
        if artifact is None:
            raise Failed(FailureClass.NOT_FOUND, "nothing was fetched for this review; replay it with a full restart")
        answered = await self._store(lambda db: repository.load_parts(db, args.review_id))
        parts = await asyncio.to_thread(_parts, artifact)
        return Work(artifact.facts, parts, answered.numbers)

    async def _keep(self, args: ReviewArgs, part: Part, answer: Answer) -> None:
        judged = await asyncio.to_thread(findings_of, answer.data, part)
        await self._store(
            lambda db: repository.store_part(
                db,
                args.review_id,
                part.number,
                judged.findings,
                dropped=judged.dropped,
                input_tokens=answer.usage.input_tokens,
                output_tokens=answer.usage.output_tokens,
            )
        )

    # ----------------------------------------------------------------- notify

    async def notify(self, job: Job, args: ReviewArgs) -> dict[str, Any]:
        """Tell everybody, once each."""
        return await notify(self._reviews, job, args)

    # ------------------------------------------------------------------- rows

    async def _review(self, args: ReviewArgs) -> StoredReview:
        found = await self._store(lambda db: repository.load_review(db, args.review_id))
        if found is None:
            raise Failed(FailureClass.NOT_FOUND, f"there is no review {args.review_id}; it was never asked for")
        return found

    async def _store(self, work: Callable[[Pooled], Awaitable[T]]) -> T:
        return await stored(self._reviews, work)


def gravest(failures: Sequence[BaseException]) -> BaseException:
    """The one failure that stands for all: a bug, else one that no retry helps, else the longest wait."""

    def rank(error: BaseException) -> tuple[int, timedelta]:
        if not isinstance(error, Failed):
            return 0, timedelta(0)
        final = not is_retryable(error.error_class, idempotent=True)
        return (1 if final else 2), -(error.retry_after or timedelta(0))

    return min(failures, key=rank)


def _parts(artifact: Artifact) -> tuple[Part, ...]:
    return cut(restore(artifact.diff), tokens=artifact.part_tokens, most=max(artifact.parts, 1))


def _reference(args: ReviewArgs) -> dict[str, str]:
    return {"review_id": str(args.review_id)}
