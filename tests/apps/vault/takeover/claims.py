"""What the tests of the view share: a producer's row, a poller's claim, and a claim that runs out."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg

from tests.apps.vault.takeover import statements as say
from tests.apps.vault.takeover.outbox import Outbox

Poller = psycopg.Connection[Any]

FAILURE: Final[dict[str, Any]] = {
    "backoff": timedelta(seconds=30), "error_code": "RATE_LIMITED", "error_message": "slow down",
}  # fmt: skip


def enqueue(outbox: Outbox, **given: Any) -> UUID:
    """A row as a producer of before puts it in."""
    row = {"id": uuid4(), "item_id": outbox.item(), **given}
    with outbox.legacy() as producer:
        producer.execute(say.OLD_INSERT, row)
    return UUID(str(row["id"]))


def claim(poller: Poller, worker: str = "w1") -> dict[str, Any] | None:
    """The claim of 004."""
    row: dict[str, Any] | None = poller.execute(say.CLAIM, {"worker_id": worker}).fetchone()
    return row


def expire(outbox: Outbox, job: UUID) -> None:
    """Its lease is over."""
    outbox.run("update penstock.jobs set lease_expires_at = now() - interval '1 second' where job_id = %s", job)


def engine_claims(outbox: Outbox, job: UUID) -> None:
    """A worker of the engine takes it, with its run."""
    outbox.run(
        "update penstock.jobs set status = 'processing', claim_seq = claim_seq + 1, claimed_by = 'engine-0', "
        "run_id = gen_random_uuid(), claimed_at = now(), lease_expires_at = now() + interval '5 minutes' "
        "where job_id = %s",
        job,
    )


def moves(outbox: Outbox, job: UUID) -> list[str]:
    """The trail of a job."""
    rows = outbox.run("select to_status from penstock.job_events where job_id = %s order by event_id", job)
    return [row[0] for row in rows]
