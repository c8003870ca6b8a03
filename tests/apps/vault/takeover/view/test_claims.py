"""The claims of 004, and those from before it, take jobs under the engine's rules."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.apps.vault.takeover import statements as say
from tests.apps.vault.takeover.claims import Poller, claim, enqueue, moves
from tests.apps.vault.takeover.outbox import Outbox


@pytest.mark.contract("D-45", "D-16", "C-19")
def test_the_claim_of_004_takes_a_job_with_a_name_a_lease_and_a_new_fence(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    row = claim(poller)
    assert row is not None
    assert (row["id"], row["status"], row["locked_by"]) == (job, "IN_PROGRESS", "w1")
    assert row["locked_at"] == row["claimed_at"]
    assert row["lease_expires_at"] - row["locked_at"] == pytest.approx(timedelta(minutes=5), abs=timedelta(seconds=1))
    stored = outbox.job(job)
    assert (stored["status"], stored["claim_seq"], stored["claimed_by"]) == ("processing", 1, "w1")
    assert moves(outbox, job) == ["queued", "processing"]


@pytest.mark.contract("D-46")
def test_a_row_that_is_not_due_is_not_claimed(outbox: Outbox, poller: Poller) -> None:
    poller.execute(
        "INSERT INTO enrichment_outbox (item_id, run_at) VALUES (%s, NOW() + INTERVAL '1 hour')", [outbox.item()]
    )
    assert claim(poller) is None


@pytest.mark.contract("D-46")
def test_a_row_moved_to_a_time_long_ago_is_due_now(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    poller.execute("UPDATE enrichment_outbox SET run_at = '0100-01-01 BC' WHERE id = %s", [job])
    stored = outbox.job(job)
    assert (stored["ready"], stored["run_at"]) == (True, stored["updated_at"])
    assert claim(poller) is not None


@pytest.mark.contract("D-47", "D-10", "D-51")
def test_two_sessions_claim_different_rows_the_oldest_first(outbox: Outbox, poller: Poller) -> None:
    first, second = enqueue(outbox), enqueue(outbox)
    with outbox.legacy() as other, poller.transaction(), other.transaction():
        one, two, nobody = claim(poller), claim(other, "w2"), claim(other, "w3")
    assert one is not None
    assert two is not None
    assert (one["id"], two["id"], nobody) == (first, second, None)


@pytest.mark.contract("D-10")
def test_the_claim_from_before_004_takes_a_job_under_the_name_of_its_session(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    row = poller.execute(say.OLD_CLAIM).fetchone()
    assert row is not None
    assert row["id"] == job
    stored = outbox.job(job)
    assert stored["claimed_by"] == f"legacy:{poller.info.backend_pid}"
    assert stored["lease_expires_at"] - stored["claimed_at"] == timedelta(minutes=5)


@pytest.mark.contract("D-10")
def test_select_for_update_and_then_update_claims_too(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    pick = (
        "SELECT id FROM enrichment_outbox WHERE status = 'PENDING' ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED"
    )
    with poller.transaction():
        assert [row["id"] for row in poller.execute(pick)] == [job]
        with outbox.legacy() as other:
            assert other.execute(pick).fetchall() == []
        done = poller.execute(
            "UPDATE enrichment_outbox SET status = 'IN_PROGRESS', claimed_at = NOW() WHERE id = %s", [job]
        )
        assert done.rowcount == 1
    assert outbox.job(job)["status"] == "processing"


@pytest.mark.contract("D-26")
def test_a_worker_id_of_101_characters_is_refused(outbox: Outbox, poller: Poller) -> None:
    enqueue(outbox)
    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        claim(poller, "w" * 101)
    row = claim(poller, "w" * 100)
    assert row is not None
    assert row["locked_by"] == "w" * 100


@pytest.mark.parametrize("lease", ["-1 second", "2 days", "infinity"])
def test_a_lease_without_an_end_is_refused(lease: str, outbox: Outbox, poller: Poller) -> None:
    enqueue(outbox)
    until = "'infinity'" if lease == "infinity" else f"NOW() + INTERVAL '{lease}'"
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="a lease ends within a day"):
        poller.execute(f"UPDATE enrichment_outbox SET status = 'IN_PROGRESS', lease_expires_at = {until}")


def test_pollers_get_nothing_while_operators_hold_the_type_back(outbox: Outbox, poller: Poller) -> None:
    enqueue(outbox)
    outbox.run("update penstock.types set paused_at = now(), paused_by = 'op'")
    assert claim(poller) is None
    outbox.run("update penstock.types set paused_at = null, paused_by = null")
    assert claim(poller) is not None


@pytest.mark.contract("D-48")
def test_a_lease_is_renewed_by_its_holder_alone(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    claim(poller)
    outbox.run("update penstock.jobs set lease_expires_at = now() + interval '1 second' where job_id = %s", job)
    assert poller.execute(say.RENEW, {"job_id": job, "worker_id": "w2"}).rowcount == 0
    assert poller.execute(say.RENEW, {"job_id": job, "worker_id": "w1"}).rowcount == 1
    stored = outbox.job(job)
    assert stored["lease_expires_at"] - stored["updated_at"] == pytest.approx(
        timedelta(minutes=5), abs=timedelta(seconds=1)
    )
