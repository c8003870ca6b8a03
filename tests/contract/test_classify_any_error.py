"""Whatever is raised, exactly one class comes out, and nothing is raised in turn."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.classify import Failure, classify, may_refresh
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass as F
from tests.contract.errors_of_sdks import Response, answered, caused, gemini, openai, shaped

NAMES = [
    "status_code", "status", "code", "type", "body", "details", "response", "sqlstate", "headers", "retry_after",
    "error_class", "expected", "refreshable", "reason", "errno", "upstream_status", "param", "smtp_code",
]  # fmt: skip
KEYS = st.sampled_from(["error", "details", "code", "type", "get"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.just(TimeoutError()),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=8,
)
PACKAGES = ["builtins", "httpx", "openai", "aiosmtplib", "google.genai", "asyncpg", "psycopg", "mine", ""]


@pytest.mark.contract("E-01")
@given(
    package=st.sampled_from(PACKAGES),
    name=st.sampled_from(["APIError", "TimeoutError", "OperationalError", "ConnectError", "Odd"]),
    attributes=st.dictionaries(st.sampled_from(NAMES), VALUES),
    idempotent=st.booleans(),
    unknown_retryable=st.booleans(),
)
def test_any_exception_gets_exactly_one_class_and_one_of_two_values(
    package: str, name: str, attributes: dict[str, Any], idempotent: bool, unknown_retryable: bool
) -> None:
    error = shaped(package, name, **attributes)

    failure = classify(error, idempotent=idempotent, unknown_retryable=unknown_retryable)

    assert failure.error_class in F
    assert failure.retryable in (True, False)


@pytest.mark.contract("E-01")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(503), asyncio.CancelledError(), GeneratorExit()])
def test_what_is_no_ordinary_exception_is_a_bug_too(error: BaseException) -> None:
    assert classify(error).error_class is F.RUNTIME_BUG


class Hostile(Exception):
    """Every look at it raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    @property
    def response(self) -> Any:
        raise RuntimeError


@pytest.mark.contract("E-01")
def test_an_exception_whose_attributes_raise_is_classified_all_the_same() -> None:
    assert classify(Hostile()) == Failure(F.RUNTIME_BUG, retryable=False, recognised=False)


class Leaving(Exception):
    """Not even its arguments can be had, and a look at it would end the process."""

    @property
    def args(self) -> Any:  # type: ignore[override]
        raise SystemExit


@pytest.mark.contract("E-01")
@pytest.mark.parametrize("retryable", [True, False])
def test_whatever_a_look_at_an_exception_raises_it_is_a_bug_that_nobody_recognises(retryable: bool) -> None:
    failure = classify(Leaving(), unknown_retryable=retryable)

    assert failure == Failure(F.RUNTIME_BUG, retryable=retryable, recognised=False)


@pytest.mark.contract("E-01", "E-03")
@pytest.mark.parametrize(
    ("asked", "wait"),
    [
        (-(10**400), timedelta(0)),
        (10**400, timedelta(days=365)),
        (float("inf"), timedelta(days=365)),
        (float("nan"), None),
    ],
    ids=["past", "far", "endless", "nan"],
)
def test_a_wait_beyond_all_sense_is_cut_and_one_that_is_no_number_ignored(asked: float, wait: timedelta | None) -> None:
    failure = classify(shaped("provider", "Throttled", status_code=429, retry_after=asked))

    assert (failure.error_class, failure.retry_after) == (F.RATE_LIMITED, wait)


@pytest.mark.contract("E-01", "C-50")
def test_an_unknown_exception_is_retried_only_where_the_policy_says_so() -> None:
    class Unheard(Exception):
        pass

    assert classify(Unheard(), unknown_retryable=True) == Failure(F.RUNTIME_BUG, retryable=True, recognised=False)
    assert classify(Unheard(), unknown_retryable=False) == Failure(F.RUNTIME_BUG, retryable=False, recognised=False)
    assert not classify(Failed(F.RUNTIME_BUG), unknown_retryable=True).retryable


@pytest.mark.contract("E-01")
def test_an_unknown_exception_takes_the_class_of_its_cause() -> None:
    assert classify(caused(LookupError(), answered(503))).error_class is F.NETWORK_RESET


@pytest.mark.contract("E-11")
def test_a_bug_in_an_except_block_stays_a_bug_whatever_was_being_handled() -> None:
    bug = AttributeError("respnse")
    bug.__context__ = answered(503)

    assert classify(bug).error_class is F.RUNTIME_BUG


@pytest.mark.contract("E-01")
def test_a_chain_that_bites_its_own_tail_ends() -> None:
    first, second = LookupError(), LookupError()
    caused(first, second)
    caused(second, first)

    assert classify(first).error_class is F.RUNTIME_BUG


@pytest.mark.contract("E-01")
def test_of_a_group_the_worst_member_counts_with_the_longest_wait() -> None:
    group = ExceptionGroup("two", [answered(429, {"retry-after": "120"}), ExceptionGroup("in", [answered(401)])])

    failure = classify(group)

    assert (failure.error_class, failure.retryable) == (F.AUTH_DENIED, False)
    assert failure.retry_after == timedelta(seconds=120)


@pytest.mark.contract("E-01")
def test_a_bug_in_a_group_outranks_every_other_end() -> None:
    group = ExceptionGroup("three", [answered(401), KeyError("x"), answered(503)])

    assert classify(group).error_class is F.RUNTIME_BUG
    assert classify(group, unknown_retryable=True).error_class is F.AUTH_DENIED


@pytest.mark.contract("E-01")
def test_a_group_nested_a_thousand_deep_is_read_to_its_end() -> None:
    group: Exception = TimeoutError()
    for _ in range(900):
        group = ExceptionGroup("deeper", [group])

    assert classify(group).error_class is F.NETWORK_TIMEOUT


@pytest.mark.contract("E-08")
def test_an_expired_token_with_a_refresher_is_tried_once_more_and_without_one_fails() -> None:
    calls: list[str] = []

    def call(token: str) -> str:
        calls.append(token)
        if token.startswith("old"):
            raise shaped("provider", "Expired", status_code=401, refreshable=True)
        return "answer"

    def run(tokens: Iterator[str]) -> str | Failure:
        refreshed = False
        while True:
            try:
                return call(next(tokens))
            except Exception as error:
                failure = classify(error)
                if not may_refresh(failure, refreshed=refreshed):
                    return failure
                refreshed = True

    assert run(iter(["old", "new"])) == "answer"
    failed_again = run(iter(["old", "old", "new"]))
    assert isinstance(failed_again, Failure)
    assert failed_again.error_class is F.AUTH_DENIED
    assert calls == ["old", "new", "old", "old"]
    assert not may_refresh(classify(answered(401)), refreshed=False)
    assert not may_refresh(classify(shaped("p", "No", status_code=403, refreshable=True)), refreshed=False)


NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


@pytest.mark.contract("E-03")
@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (answered(429, {"retry-after": "120"}), 120),
        (answered(429, {"Retry-After": "120"}), 120),
        (answered(429, {"retry-after-ms": "1500"}), 1.5),
        (answered(429, {"retry-after": "Sun, 15 Nov 2026 12:02:00 GMT"}), 120),
        (answered(429, {"retry-after": "Sun, 15 Nov 2026 11:00:00 GMT"}), 0),
        (
            answered(429, {"retry-after": "Sun, 15 Nov 2026 18:00:30 GMT", "date": "Sun, 15 Nov 2026 18:00:00 GMT"}),
            30,
        ),
        (gemini(429, "RESOURCE_EXHAUSTED", [{"retryDelay": "34s"}]), 34),
        (Failed(F.RATE_LIMITED, retry_after=timedelta(seconds=7)), 7),
        (shaped("provider", "Throttled", status_code=429, retry_after=9), 9),
        (openai(429, response=Response(429, {"retry-after": "11"})), 11),
    ],
)
def test_the_wait_an_upstream_asks_for_is_found_wherever_it_stands(error: Exception, seconds: float) -> None:
    assert classify(error, now=NOW).retry_after == timedelta(seconds=seconds)


@pytest.mark.contract("E-03")
@pytest.mark.parametrize("header", ["soon", "", "-5", "1e3", "nan", "Sun, 99 Nov 2026 12:02:00 GMT", "\u0661"])
def test_a_header_that_is_neither_seconds_nor_a_date_is_ignored(header: str) -> None:
    failure = classify(answered(429, {"retry-after": header}), now=NOW)

    assert failure.retryable
    assert failure.retry_after is None
