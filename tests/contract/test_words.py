"""The words of other documents for the six statuses."""

import pytest

from penstock.contract.statuses import Status
from penstock.contract.verdicts import Reason
from penstock.contract.words import Vocabulary, canonical, edge_word, outcome_label


@pytest.mark.contract("Q-17", "A-14")
def test_legacy_rows_read_as_the_canonical_words() -> None:
    assert canonical("running") is Status.PROCESSING
    assert canonical("succeeded") is Status.COMPLETED


@pytest.mark.contract("C-01")
@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("PENDING", Status.QUEUED),
        ("IN_PROGRESS", Status.PROCESSING),
        ("in_progress", Status.PROCESSING),
        ("DONE", Status.COMPLETED),
        ("FAILED", Status.FAILED),
        ("DEAD", Status.FAILED),
        ("retryable_failed", Status.QUEUED),
        ("dead_letter", Status.FAILED),
        *((status.value, status) for status in Status),
    ],
)
def test_every_documents_word_has_one_stored_status(word: str, status: Status) -> None:
    assert canonical(word) is status


@pytest.mark.parametrize("word", ["", "finished", "queued;drop", "unknown"])
def test_a_word_of_no_document_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="no document has a status"):
        canonical(word)


@pytest.mark.contract("C-01", "C-46", "C-05")
@pytest.mark.parametrize(
    ("status", "failed_attempts", "word"),
    [
        (Status.QUEUED, 0, "in_progress"),
        (Status.QUEUED, 1, "retryable_failed"),
        (Status.PROCESSING, 0, "in_progress"),
        (Status.PROCESSING, 3, "in_progress"),
        (Status.BATCH_SUBMITTED, 0, "in_progress"),
        (Status.COMPLETED, 2, "succeeded"),
        (Status.FAILED, 5, "dead_letter"),
        (Status.CANCELED, 0, "canceled"),
    ],
)
def test_a_review_job_is_shown_in_the_words_of_the_review_spec(status: Status, failed_attempts: int, word: str) -> None:
    assert edge_word("review", status, failed_attempts) == word


@pytest.mark.contract("C-01", "C-02")
@pytest.mark.parametrize(
    ("status", "reason", "word"),
    [
        (Status.QUEUED, None, "PENDING"),
        (Status.PROCESSING, None, "IN_PROGRESS"),
        (Status.COMPLETED, None, "DONE"),
        (Status.FAILED, Reason.NON_RETRYABLE, "FAILED"),
        (Status.FAILED, "integrity", "FAILED"),
        (Status.FAILED, "budget_exhausted", "DEAD"),
    ],
)
def test_a_dispatch_job_is_shown_in_the_words_of_the_dispatch_design(
    status: Status, reason: Reason | str | None, word: str
) -> None:
    assert edge_word(Vocabulary.DISPATCH, status, reason=reason) == word


@pytest.mark.contract("C-01")
@pytest.mark.parametrize("vocabulary", list(Vocabulary))
@pytest.mark.parametrize("status", [s for s in Status if s is not Status.BATCH_SUBMITTED])
def test_a_word_shown_outside_leads_back_to_the_stored_one(vocabulary: Vocabulary, status: Status) -> None:
    assert canonical(edge_word(vocabulary, status, attempt_count=1)) is status


@pytest.mark.contract("C-02", "C-54")
def test_the_outcome_label_tells_a_spent_budget_from_a_permanent_failure() -> None:
    assert outcome_label(Status.COMPLETED) == "success"
    assert outcome_label(Status.FAILED, Reason.BUDGET_EXHAUSTED) == "dead"
    assert outcome_label(Status.FAILED, Reason.NON_RETRYABLE) == "failed"
    assert outcome_label(Status.FAILED, Reason.INTEGRITY) == "failed"
    assert outcome_label(Status.CANCELED) is None
    assert outcome_label(Status.QUEUED) is None
