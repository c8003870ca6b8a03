"""Execution: one payload in, one output or one failure out (A-25).

The layer carries out and decides nothing. Who the recipient is, which language,
which lane and which provider were decided when the request was made; here they
are read, compared and kept (A-84). Text is in memory for as long as a question
is built or an answer judged, and nowhere else (A-83).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.apps.rewrite import repository
from penstock.apps.rewrite.evaluation import EVAL_VERSION, LEXICON_VERSION, evaluate_rewrite, response_of
from penstock.apps.rewrite.homes import home_key
from penstock.apps.rewrite.hydration import hydrated
from penstock.apps.rewrite.prompts import prompt
from penstock.apps.rewrite.router import to_route
from penstock.contract.calls import Request
from penstock.contract.errors import Failed, LeaseLost
from penstock.engine import patience

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from penstock.apps.rewrite.application import Rewrites
    from penstock.apps.rewrite.evaluation import Evaluation
    from penstock.apps.rewrite.hydration import Unit
    from penstock.apps.rewrite.models import RewriteJobV1, RewriteResponseV1
    from penstock.contract.calls import Answer
    from penstock.engine.batches.lane import LaneJob
    from penstock.store.claims import Transaction

MOST_TOKENS: Final = 6000  # of an answer; the longest output that is stored takes fewer in every language
SCHEMA: Final[dict[str, Any]] = {  # RewriteAnswer, in the words that every provider's strict mode takes
    "type": "object",
    "properties": {"rewritten_text": {"type": "string"}, "output_locale": {"type": "string"}},
    "required": ["rewritten_text", "output_locale"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An answer that was accepted, with what accepted it and the provider's own time of it (A-98)."""

    response: RewriteResponseV1 = field(repr=False)
    evaluation: Evaluation
    at: datetime | None


class Execution:
    """The four functions of the lane."""

    def __init__(self, rewrites: Rewrites) -> None:
        self._rewrites = rewrites

    async def build(self, job: LaneJob, args: Unit) -> Request | None:
        """The question of one unit; None when its slot is filled, and then nobody is asked (A-60)."""
        payload = await self.payload(job, args)
        return None if payload is None else request_of(payload)

    async def accept(self, job: LaneJob, args: Unit, answer: Answer) -> Rewrite | None:
        """What is stored of *answer*; one that any check refuses is `Failed` for good (A-62)."""
        payload = await self.payload(job, args)
        if payload is None:
            return None
        try:
            return await asyncio.to_thread(judged, payload, answer)
        except Failed as refused:
            code = str(refused.error_class)
            await patience.persist("rewrite", lambda: self._note(payload, code))
            raise

    async def persist(self, job: LaneJob, args: Unit, result: Rewrite | None, connection: Transaction) -> None:
        """Fill the slot and complete the request, in the transaction that completes the job (A-44, A-66).

        Locked in the order job, unit, request, as by everybody else. A slot
        that is filled stays as it is, and the job completes all the same: a
        second completion changes nothing (A-75).
        """
        unit = args.rewrite_request_id, args.recipient_user_id
        if not await repository.hold_unit(connection, job.job_id, job.claim_seq, *unit):
            raise LeaseLost(job.job_id)
        if result is None:
            return
        key = await home_key(connection, self._rewrites.keyring, args.home_id)
        await repository.fill_slot(
            connection,
            key,
            job_id=job.job_id,
            rewrite_request_id=args.rewrite_request_id,
            recipient_user_id=args.recipient_user_id,
            response=result.response,
            eval_version=result.evaluation.eval_version,
            lexicon_version=result.evaluation.lexicon_version,
            provider_item_completed_at=result.at,
        )
        await repository.complete_request(connection, args.home_id, args.rewrite_request_id)

    def around(self, _job: LaneJob, args: Unit) -> AbstractAsyncContextManager[None]:
        """The lock of the unit, for as long as its single call takes (C-30)."""
        return self._rewrites.locks.held((args.rewrite_request_id, args.recipient_user_id))

    async def payload(self, job: LaneJob, args: Unit) -> RewriteJobV1 | None:
        """The whole payload of *job*, through an absence of the database; None when there is nothing left to do."""
        return await patience.persist("rewrite", lambda: hydrated(self._rewrites, job, args))

    async def _note(self, payload: RewriteJobV1, code: str) -> None:
        """Remember which versions refused, for the report of regressions (A-81)."""
        async with self._rewrites.in_home(payload.home_id) as connection:
            await repository.note_refusal(
                connection,
                payload.home_id,
                payload.job_id,
                attempt=payload.attempt,
                code=code,
                eval_version=EVAL_VERSION,
                lexicon_version=LEXICON_VERSION,
            )


def request_of(payload: RewriteJobV1) -> Request:
    """The question of one payload: one message, one recipient, the route as it was decided (A-42, A-56)."""
    rendered = prompt(payload.routing_decision.prompt_version).render(payload.rewrite_request)
    route = to_route(payload.routing_decision, payload)
    return Request(
        route, rendered.instructions, rendered.text, schema_name="rewrite_answer", max_output_tokens=MOST_TOKENS
    )


def judged(payload: RewriteJobV1, answer: Answer) -> Rewrite:
    """*answer* as a response that has passed every check, or `Failed` with the first class that it met (A-45)."""
    response = response_of(answer.data, payload.rewrite_request, payload.routing_decision)
    evaluation = evaluate_rewrite(response, payload.rewrite_request)
    evaluation.raise_if_refused()
    return Rewrite(response, evaluation, answer.at)
