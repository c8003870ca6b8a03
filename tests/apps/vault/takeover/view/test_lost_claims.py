"""Who has lost its claim changes nothing, as with every claim."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.apps.vault.takeover import statements as say
from tests.apps.vault.takeover.claims import FAILURE, Poller, claim, engine_claims, enqueue, expire
from tests.apps.vault.takeover.outbox import Outbox


@pytest.mark.contract("D-49", "D-20")
def test_reclaim_puts_expired_claims_back_and_uses_no_attempt(outbox: Outbox, poller: Poller) -> None:
    held, expired = enqueue(outbox), enqueue(outbox)
    claim(poller)
    claim(poller)
    expire(outbox, expired)
    assert poller.execute(say.RECLAIM).rowcount == 1
    seen = outbox.seen(expired)
    assert (seen["status"], seen["locked_by"], seen["lease_expires_at"], seen["attempt_count"]) == (
        "PENDING",
        None,
        None,
        0,
    )
    assert outbox.seen(held)["status"] == "IN_PROGRESS"
    assert outbox.job(expired)["reclaim_count"] == 1


@pytest.mark.contract("C-13")
def test_a_job_that_is_reclaimed_for_the_sixth_time_ends(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    for _ in range(6):
        claim(poller)
        expire(outbox, job)
        poller.execute(say.RECLAIM)
    assert outbox.seen(job)["status"] == "FAILED"
    assert outbox.one("select error_class from penstock.dead_letters") == {"error_class": "LEASE_EXPIRED"}


@pytest.mark.contract("C-31")
def test_who_lost_its_claim_changes_nothing(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    claim(poller)
    expire(outbox, job)
    poller.execute(say.RECLAIM)
    before = outbox.job(job)
    assert poller.execute(say.OLD_DONE, {"job_id": job}).rowcount == 0
    assert poller.execute(say.OLD_DEAD, {"job_id": job, "error": "late"}).rowcount == 0
    assert poller.execute(say.MARK_FAILED, {"job_id": job, **FAILURE}).rowcount == 0
    assert outbox.job(job) == before


@pytest.mark.contract("C-31")
def test_a_job_in_the_hands_of_the_engine_is_not_a_pollers(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    engine_claims(outbox, job)
    before, said = outbox.job(job), []
    poller.add_notice_handler(lambda note: said.append(note.message_primary))
    for statement, values in (
        (say.OLD_DONE, {}),
        (say.OLD_DEAD, {"error": "late"}),
        (say.MARK_FAILED, FAILURE),
        (say.RENEW, {"worker_id": "engine-0"}),
    ):
        assert poller.execute(statement, {"job_id": job, **values}).rowcount == 0
    assert outbox.job(job) == before
    assert (
        said[0] == f"job {job} is in the hands of engine-0: nobody holds it for this statement, so DONE changes nothing"
    )
    expire(outbox, job)
    assert poller.execute(say.RECLAIM).rowcount == 1


def test_an_update_that_another_overtook_counts_as_no_row(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    claim(poller)
    slow = (
        "UPDATE enrichment_outbox SET status = 'PENDING', attempt_count = attempt_count + 1 "
        "WHERE id = %(job_id)s AND pg_advisory_xact_lock(7) IS NOT NULL"
    )
    with outbox.legacy() as other:
        other.execute("select pg_advisory_lock(7)")
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(poller.execute, slow, {"job_id": job})
            outbox.wait_for("select exists (select from pg_locks where locktype = 'advisory' and not granted)")
            other.execute(say.OLD_DONE, {"job_id": job})
            other.execute("select pg_advisory_unlock(7)")
            assert late.result().rowcount == 0
    assert outbox.seen(job)["status"] == "DONE"
