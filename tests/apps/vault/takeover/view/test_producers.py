"""A row put in is a job enqueued, or is refused by name."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.apps.vault.takeover import statements as say
from tests.apps.vault.takeover.claims import Poller, enqueue, moves
from tests.apps.vault.takeover.outbox import Outbox


@pytest.mark.contract("D-54")
def test_a_row_put_in_is_a_job_enqueued(outbox: Outbox) -> None:
    item = outbox.item()
    job = enqueue(outbox, item_id=item)
    row = outbox.job(job)
    assert (row["status"], row["payload"], row["idempotency_key"]) == (
        "queued", {"item_id": str(item)}, f"enrichment:{item}",
    )  # fmt: skip
    assert (row["audited"], row["max_attempts"], moves(outbox, job)) == (True, 4, ["queued"])


@pytest.mark.contract("D-34", "D-35")
def test_a_row_put_in_pokes_with_its_commit_and_not_without(outbox: Outbox) -> None:
    item = outbox.item()
    with outbox.legacy() as producer:
        outbox.db.execute("listen litevault_jobs")
        with producer.transaction(force_rollback=True):
            producer.execute(say.OLD_INSERT, {"id": uuid4(), "item_id": item})
        producer.execute(say.OLD_INSERT, {"id": uuid4(), "item_id": item})
    heard = list(outbox.db.notifies(timeout=10, stop_after=1))
    assert [(note.channel, note.payload) for note in heard] == [("litevault_jobs", '{"job_type": "enrichment"}')]


def test_a_second_row_of_an_item_is_a_second_job_and_the_first_keeps_the_key(outbox: Outbox) -> None:
    item = outbox.item()
    first, second = enqueue(outbox, item_id=item), enqueue(outbox, item_id=item)
    assert outbox.job(first)["idempotency_key"] == f"enrichment:{item}"
    assert outbox.job(second)["idempotency_key"] is None


@pytest.mark.contract("D-24", "D-25")
def test_a_row_put_in_with_nothing_but_an_item_has_the_defaults(outbox: Outbox, poller: Poller) -> None:
    item = outbox.item()
    row = poller.execute("INSERT INTO enrichment_outbox (item_id) VALUES (%s) RETURNING *", [item]).fetchone()
    assert row is not None
    assert (row["item_id"], row["job_type"], row["status"], row["attempt_count"]) == (item, "enrichment", "PENDING", 0)
    assert row["run_at"] == row["created_at"]
    assert (row["locked_by"], row["locked_at"], row["lease_expires_at"], row["last_error"]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("columns", "error", "words"),
    [
        ({"item_id": None}, psycopg.errors.NotNullViolation, "item_id is null"),
        ({"status": "DONE"}, psycopg.Error, "a new row is PENDING"),
        ({"status": "BANANA"}, psycopg.Error, "a new row is PENDING"),
        ({"attempt_count": 2}, psycopg.Error, "a new row is PENDING with no attempt used"),
        ({"job_type": "vectors"}, psycopg.errors.InvalidParameterValue, "not vectors"),
        ({"run_at": "infinity"}, psycopg.errors.InvalidParameterValue, "within ten years"),
    ],
)
def test_a_row_that_cannot_be_a_job_is_refused_by_name(
    columns: dict[str, Any], error: type[Exception], words: str, outbox: Outbox, poller: Poller
) -> None:
    row = {"item_id": uuid4(), **columns}
    with pytest.raises(error, match=words):
        poller.execute(
            f"INSERT INTO enrichment_outbox ({', '.join(row)}) VALUES ({', '.join(['%s'] * len(row))})",
            list(row.values()),
        )
    assert outbox.run("select count(*) from penstock.jobs") == [(0,)]
