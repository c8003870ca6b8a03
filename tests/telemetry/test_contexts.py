"""The context of a dead letter: an allow-list of ids, counts, codes and hashes."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.redaction import (
    hashed,
    hashed_recipient,
    opaque_id,
    sanitized_context,
)
from tests.telemetry.test_redaction import CANARY, SECRETS


@pytest.mark.contract("E-29", "E-30")
def test_the_context_holds_ids_stage_counts_codes_and_hashes() -> None:
    context = sanitized_context(
        job_id=UUID(int=7),
        request_ids={"changelist_id": "cl-42", "request_id": "req_8"},
        stage="llm",
        attempt=3,
        attempt_count=2,
        upstream_status=503,
        upstream_code="overloaded_error",
        payload_hash="ab" * 32,
    )

    assert context == {
        "job_id": str(UUID(int=7)),
        "request_ids": {"changelist_id": "cl-42", "request_id": "req_8"},
        "stage": "llm",
        "attempt": 3,
        "attempt_count": 2,
        "upstream_status": 503,
        "upstream_code": "overloaded_error",
        "payload_hash": "ab" * 8,
    }


@pytest.mark.contract("E-30")
def test_the_context_lets_nothing_in_that_is_not_on_its_list() -> None:
    context = sanitized_context(prompt=CANARY, token="abc", recipient=CANARY, payload={"text": CANARY}, stage="llm")  # noqa: S106 - a canary

    assert context == {"stage": "llm"}


FACTS = ["job_id", "run_id", "worker_id", "request_ids", "payload_ids", "payload_hash", "job_type", "stage",
         "error_class", "upstream_code", "upstream_status", "attempt", "attempt_count", "max_attempts"]  # fmt: skip
SENSITIVE = st.sampled_from([CANARY, *SECRETS, "my neighbour plays loud music", "+49 170 1234567", "canary text"])


@pytest.mark.contract("E-30")
@given(
    st.dictionaries(
        st.sampled_from(FACTS),
        SENSITIVE
        | st.dictionaries(SENSITIVE | st.just("id"), SENSITIVE)
        | st.lists(SENSITIVE)
        | SENSITIVE.map(str.encode),
    )
)
def test_a_secret_under_an_allowed_name_does_not_show_either(facts: dict[str, Any]) -> None:
    stored = json.dumps(sanitized_context(**facts))

    for sensitive in (CANARY, *SECRETS, "neighbour", "1234567", "canary text"):
        if sensitive.startswith("9f86"):  # a hash, allowed as such and cut short
            sensitive = sensitive[:17]  # noqa: PLW2901 - what must not be there
        assert sensitive not in stored


@pytest.mark.contract("C-52")
def test_a_recipient_is_shown_as_the_hash_of_its_trimmed_small_letters() -> None:
    assert (
        hashed_recipient("  Alice@Home.Example ")
        == hashed_recipient("alice@home.example")
        == hashed("alice@home.example")
    )
    assert "alice" not in hashed_recipient("alice@home.example")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("picture-42", True),
        (42, True),
        (UUID(int=1), True),
        (CANARY, False),
        ("a b", False),
        (10**20, False),
        (None, False),
    ],
)
def test_an_id_is_kept_when_it_is_plainly_one_and_hashed_otherwise(value: object, kept: bool) -> None:
    shown = opaque_id(value)

    assert (shown == str(value)) is kept
    assert kept or shown.startswith("sha256:")
