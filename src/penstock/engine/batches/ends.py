"""From a verdict on an item to the row that tells it; no text of users and no word of a provider gets in (C-52)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from penstock.contract.calls import Execution
from penstock.contract.keys import payload_hash
from penstock.contract.verdicts import Died, judge
from penstock.store.batch_items import Back, Dead, Ending
from penstock.telemetry.redaction import redact_text, sanitized_context

if TYPE_CHECKING:
    from penstock.contract.prices import Price
    from penstock.engine.batches.accepting import Refused
    from penstock.engine.batches.items import Line
    from penstock.engine.batches.settling import Settler
    from penstock.store.connect import Record

PUT_OFF: Final = timedelta(minutes=1)


def ending(row: Record, line: Line, price: Price | None) -> Ending:
    """What every end of this item says: whose it is, its own time, what it used and cost."""
    usage = line.usage
    cost = 0 if price is None else price.micros(usage, Execution.BATCH)
    used = usage.input_tokens, usage.output_tokens
    return Ending(row["batch_item_index"], row["job_id"], row["claim_seq"], line.at, *used, cost)


def first_verdict(row: Record, end: Ending, refused: Refused, settler: Settler) -> Back | Dead:
    """The end of an item without an answer that counts: judged as any failed attempt is, within the stage's budget."""
    failure, attempts = refused.failure, row["attempts"] + 1
    code = str(failure.error_class)
    if refused.snooze is not None:
        return Back(end, refused.snooze, charged=False, code="SNOOZED", message="")
    verdict = judge(failure, attempts, row["max_attempts"], settler.job_type.policy, settler.random)
    told = f"{code}: {failure.why}" if failure.why and settler.job_type.policy.error_messages else code
    message = redact_text(refused.stack.partition("\n")[0] or told)
    if not isinstance(verdict, Died):
        return Back(end, verdict.delay, charged=True, code=code, message=message)
    return Dead(
        end,
        code=code,
        message=message,
        retryable=failure.retryable,
        reason=str(verdict.reason),
        stack=refused.stack or f"{told}; item {end.number} of batch {settler.batch.batch_id}; there is no stack",
        context=_context(row, refused, attempts, settler),
        attempts=attempts,
        alert=verdict.alert,
    )


def put_off(dead: Dead) -> Back:
    """An end that a trigger of the application refused: the attempt counts, and the job comes back in a while."""
    return Back(dead.ending, PUT_OFF, charged=True, code=dead.code, message="its end was refused by a trigger")


def _context(row: Record, refused: Refused, attempts: int, settler: Settler) -> str:
    context = sanitized_context(
        job_id=row["job_id"],
        run_id=settler.run_id,
        stage=row["stage"],
        attempt_count=attempts,
        max_attempts=row["max_attempts"],
        claim_seq=row["claim_seq"],
        upstream_status=refused.failure.upstream_status,
        upstream_code=refused.failure.upstream_code,
        payload_hash=payload_hash(row["payload"]),
        request_ids={"batch_id": str(settler.batch.batch_id), "batch_item_index": row["batch_item_index"]},
    )
    return json.dumps({"upstream_status": None, **context})
