"""How a poller ends a job or puts it back, as 004 says it and as it was before."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.apps.vault.takeover import statements as say
from tests.apps.vault.takeover.claims import FAILURE, Poller, claim, enqueue, moves
from tests.apps.vault.takeover.outbox import Outbox


@pytest.mark.contract("D-50")
def test_done_completes_the_job_that_the_poller_holds(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    claim(poller)
    assert poller.execute(say.OLD_DONE, {"job_id": job}).rowcount == 1
    assert moves(outbox, job) == ["queued", "processing", "completed"]
    assert outbox.job(job)["finished_at"] is not None
    assert outbox.seen(job)["status"] == "DONE"


@pytest.mark.contract("D-60")
def test_mark_failed_puts_it_back_with_one_more_attempt_its_time_and_its_error(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    claim(poller)
    assert poller.execute(say.MARK_FAILED, {"job_id": job, **FAILURE}).rowcount == 1
    seen, stored = outbox.seen(job), outbox.job(job)
    assert (seen["status"], seen["attempt_count"], seen["locked_by"], seen["lease_expires_at"]) == (
        "PENDING",
        1,
        None,
        None,
    )
    assert (seen["last_error_code"], seen["last_error_message"]) == ("RATE_LIMITED", "slow down")
    assert stored["run_at"] - stored["last_error_at"] == pytest.approx(timedelta(seconds=30), abs=timedelta(seconds=1))
    assert (stored["ready"], claim(poller)) == (False, None)


@pytest.mark.contract("D-58")
def test_a_fourth_failure_ends_the_job_whatever_the_poller_says(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    for _ in range(4):
        claim(poller)
        poller.execute(say.MARK_FAILED, {"job_id": job, **FAILURE, "backoff": timedelta(0)})
    assert (outbox.seen(job)["status"], claim(poller)) == ("FAILED", None)
    letter = outbox.one("select * from penstock.dead_letters")
    assert (letter["job_id"], letter["reason"], letter["attempts"]) == (job, "budget_exhausted", 4)


def test_a_retry_from_before_004_runs_again_at_once(outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    poller.execute(say.OLD_CLAIM)
    poller.execute(say.OLD_RETRY, {"job_id": job, "error": "boom"})
    seen = outbox.seen(job)
    assert (seen["status"], seen["attempt_count"], seen["last_error"]) == ("PENDING", 1, "boom")
    assert seen["last_error_code"] == "LEGACY_FAILURE"
    assert poller.execute(say.OLD_CLAIM).rowcount == 1


@pytest.mark.contract("C-02", "C-62")
def test_failed_leaves_one_dead_letter_without_the_text_of_the_error_and_tells_the_item(
    outbox: Outbox, poller: Poller
) -> None:
    item = outbox.item()
    job = enqueue(outbox, item_id=item)
    poller.execute(say.OLD_CLAIM)
    poller.execute(say.OLD_DEAD, {"job_id": job, "error": "he wrote: my secret"})
    letter = outbox.one("select * from penstock.dead_letters")
    assert (letter["job_id"], letter["reason"], letter["error_class"]) == (job, "non_retryable", "LEGACY_FAILURE")
    assert "secret" not in str(letter)
    assert outbox.seen(job)["last_error_message"] == "he wrote: my secret"
    assert outbox.run("select status from vault.items where id = %s", item) == [("ENRICHMENT_FAILED",)]
