"""The closed list of failure classes and what follows from each."""

import pytest

from penstock.contract.failures import RULES, FailureClass, escalates, is_retryable, opens_breaker, pages

CLOSED_LIST = {
    "NETWORK_TIMEOUT", "NETWORK_RESET", "DNS_FAILURE", "UPSTREAM_5XX", "RATE_LIMITED", "CONFLICT", "HANDLER_TIMEOUT",
    "LEASE_EXPIRED", "BATCH_EXPIRED", "QUOTA_EXHAUSTED", "AUTH_DENIED", "CONFIG_INVALID", "NOT_FOUND",
    "SCHEMA_INVALID", "LEXICON_BLOCKED", "LOCALE_MISMATCH", "PAYLOAD_REJECTED", "POLICY_REJECTED",
    "BATCH_ITEM_MISSING", "BATCH_ITEM_AMBIGUOUS", "RECIPIENT_REJECTED", "RUNTIME_BUG",
}  # fmt: skip
RETRIED = {
    "NETWORK_TIMEOUT", "NETWORK_RESET", "DNS_FAILURE", "UPSTREAM_5XX", "RATE_LIMITED", "HANDLER_TIMEOUT",
    "LEASE_EXPIRED", "BATCH_EXPIRED",
}  # fmt: skip


@pytest.mark.contract("C-50", "E-27")
def test_the_list_of_classes_is_closed_and_each_fits_its_column() -> None:
    assert {error_class.value for error_class in FailureClass} == CLOSED_LIST
    assert all(len(error_class) <= 50 for error_class in FailureClass)


@pytest.mark.contract("C-50")
def test_every_class_has_a_rule_and_retries_as_the_table_says() -> None:
    assert set(RULES) == set(FailureClass)
    assert {c.value for c in FailureClass if is_retryable(c, idempotent=False)} == RETRIED
    assert {c.value for c in FailureClass if is_retryable(c, idempotent=True)} == RETRIED | {"CONFLICT"}


@pytest.mark.contract("C-50")
def test_credentials_quota_and_configuration_open_the_breaker() -> None:
    opening = {c.value for c in FailureClass if opens_breaker(c)}

    assert opening == {"AUTH_DENIED", "QUOTA_EXHAUSTED", "CONFIG_INVALID"}


@pytest.mark.contract("E-11")
def test_bugs_and_bad_configuration_page_and_nothing_else_does() -> None:
    assert {c.value for c in FailureClass if pages(c)} == {"RUNTIME_BUG", "CONFIG_INVALID"}


@pytest.mark.contract("E-10")
def test_a_policy_reject_escalates_unless_it_was_expected() -> None:
    assert {c.value for c in FailureClass if escalates(c, expected=False)} == {"POLICY_REJECTED"}
    assert not any(escalates(c, expected=True) for c in FailureClass)
