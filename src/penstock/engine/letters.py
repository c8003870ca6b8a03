"""From a verdict to the row that tells it: what is kept of a failure, redacted (E-27 to E-32, C-52)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.contract.keys import payload_hash
from penstock.store.claims import Death, Requeue
from penstock.telemetry.redaction import redact_text, sanitized_context

if TYPE_CHECKING:
    from penstock.contract.verdicts import Died, Requeued, Retried
    from penstock.engine.running import Running


PUT_OFF: Final = timedelta(minutes=1)


def retry(running: Running, verdict: Retried, stack: str) -> Requeue:
    """The requeue of a failed attempt."""
    return Requeue(
        running.claim,
        verdict.delay,
        charged=True,
        code=str(verdict.failure.error_class),
        message=_message(stack, str(verdict.failure.error_class)),
    )


def give_back(running: Running, verdict: Requeued) -> Requeue:
    """The requeue of a claim that used no attempt."""
    return Requeue(running.claim, verdict.delay, charged=False, code=verdict.code, survived=running.survived)


def put_off(letter: Death) -> Requeue:
    """An end that the application's own trigger refused: the attempt counts, and the job comes back in a while."""
    return Requeue(letter.claim, PUT_OFF, charged=True, code=letter.code, message="its end was refused by a trigger")


def death(running: Running, verdict: Died, stack: str, worker_id: str) -> Death:
    """The end of a job, with its dead letter."""
    claim, failure = running.claim, verdict.failure
    code = str(failure.error_class)
    context = sanitized_context(
        job_id=claim.job_id,
        run_id=running.run.run_id,
        worker_id=worker_id,
        stage=claim.stage,
        attempt_count=running.attempts,
        max_attempts=claim.max_attempts,
        upstream_status=failure.upstream_status,
        upstream_code=failure.upstream_code,
        payload_hash=payload_hash(claim.payload),
    )
    return Death(
        claim,
        code=code,
        message=_message(stack, code),
        retryable=failure.retryable,
        reason=str(verdict.reason),
        stack=stack or code,
        context=json.dumps({"upstream_status": None, **context}),  # null says: no upstream answered
        attempts=running.attempts,
        alert=verdict.alert,
    )


def _message(stack: str, code: str) -> str:
    """The first line of the stack says what was raised; it has been redacted with the rest."""
    return redact_text(stack.strip().partition("\n")[0] or code)
