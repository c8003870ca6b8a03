"""Words that are none, and changes of what a row is, are refused."""

from __future__ import annotations

import psycopg
import pytest

from tests.apps.vault.takeover.claims import Poller, claim, enqueue
from tests.apps.vault.takeover.outbox import Outbox


@pytest.mark.contract("D-50", "C-01")
@pytest.mark.parametrize("word", ["BANANA", "pending", "DEAD", None])
def test_a_word_that_is_none_is_refused(word: str | None, outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    with pytest.raises(
        psycopg.errors.InvalidParameterValue, match="status is one of PENDING, IN_PROGRESS, DONE, FAILED"
    ):
        poller.execute("UPDATE enrichment_outbox SET status = %s", [word])
    assert outbox.seen(job)["status"] == "PENDING"


@pytest.mark.contract("D-50")
@pytest.mark.parametrize(("end", "word"), [("DONE", "PENDING"), ("FAILED", "PENDING"), ("DONE", "IN_PROGRESS")])
def test_what_has_ended_does_not_begin_again(end: str, word: str, outbox: Outbox, poller: Poller) -> None:
    job = enqueue(outbox)
    claim(poller)
    poller.execute("UPDATE enrichment_outbox SET status = %s", [end])
    with pytest.raises(psycopg.Error, match=f"is {end} and cannot become {word}"):
        poller.execute("UPDATE enrichment_outbox SET status = %s", [word])
    assert poller.execute("UPDATE enrichment_outbox SET status = %s", [end]).rowcount == 1
    assert outbox.seen(job)["status"] == end


@pytest.mark.parametrize(
    "change",
    [
        "id = gen_random_uuid()",
        "item_id = gen_random_uuid()",
        "created_at = NOW()",
        "attempt_count = 7",
        "attempt_count = -1",
    ],
)
def test_what_a_row_is_cannot_be_changed(change: str, outbox: Outbox, poller: Poller) -> None:
    enqueue(outbox)
    with pytest.raises(psycopg.Error, match=r"cannot be changed|rises by one"):
        poller.execute(f"UPDATE enrichment_outbox SET {change}")


def test_rows_are_not_deleted_by_hand(outbox: Outbox, poller: Poller) -> None:
    enqueue(outbox)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="not deleted by hand"):
        poller.execute("DELETE FROM enrichment_outbox")
