"""Signals and the class each of them means."""

import json
import socket
import ssl
from collections.abc import Callable
from typing import Any

import asyncpg
import psycopg.errors
import pydantic
import pytest
from sqlalchemy import exc as sqlalchemy_errors

from penstock.contract.classify import classify
from penstock.contract.errors import ArgumentsInvalid, DatabaseUnavailable, Failed, PayloadRejected
from penstock.contract.failures import FailureClass as F
from penstock.contract.policies import Policy
from penstock.contract.verdicts import Died, Reason, Retried, judge
from tests.contract.errors_of_sdks import answered, anthropic, caused, gemini, named, openai, shaped


def judged(error: Exception, attempt: int = 1, **options: Any) -> Retried | Died:
    policy = Policy("review", attempts=5, idempotent=False, unknown_retryable=False)
    return judge(classify(error, **options), attempt, policy.attempts, policy, lambda: 0.5)


def test_the_shapes_carry_nothing_but_names() -> None:
    assert classify(named("penstock.tests", "Anything")()).error_class is F.RUNTIME_BUG


@pytest.mark.contract("E-02")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (socket.gaierror(-3, "Temporary failure in name resolution"), F.DNS_FAILURE),
        (TimeoutError(), F.NETWORK_TIMEOUT),
        (ConnectionResetError(), F.NETWORK_RESET),
        (answered(502), F.NETWORK_RESET),
        (answered(503), F.NETWORK_RESET),
        (answered(504), F.NETWORK_TIMEOUT),
        (BrokenPipeError(), F.NETWORK_RESET),
        (answered(408), F.NETWORK_TIMEOUT),
        (OSError(113, "No route to host"), F.NETWORK_RESET),
        (ssl.SSLError("wrong version number"), F.NETWORK_RESET),
        (shaped("httpx", "ReadTimeout", named("httpx", "TimeoutException")), F.NETWORK_TIMEOUT),
        (shaped("httpx2", "ReadError", named("httpx2", "NetworkError")), F.NETWORK_RESET),
        (shaped("httpx", "RemoteProtocolError"), F.NETWORK_RESET),
        (shaped("openai", "APITimeoutError", named("openai", "APIConnectionError")), F.NETWORK_TIMEOUT),
        (shaped("anthropic", "APIConnectionError"), F.NETWORK_RESET),
        (shaped("aiosmtplib.errors", "SMTPServerDisconnected"), F.NETWORK_RESET),
    ],
)
def test_a_network_failure_is_retried(error: Exception, expected: F) -> None:
    failure = classify(error)

    assert (failure.error_class, failure.retryable) == (expected, True)


@pytest.mark.contract("E-02")
def test_a_vague_connection_error_yields_to_the_cause_below_it() -> None:
    below = caused(
        shaped("httpcore", "ConnectError", named("httpcore", "NetworkError")), socket.gaierror(-2, "unknown")
    )
    above = caused(shaped("openai", "APIConnectionError"), below)

    assert classify(above).error_class is F.DNS_FAILURE


@pytest.mark.contract("E-03")
@pytest.mark.parametrize(
    "error",
    [
        answered(429),
        openai(429, code="rate_limit_exceeded", kind="tokens"),
        openai(503, code="slow_down"),
        anthropic(429, "rate_limit_error"),
        gemini(429, "RESOURCE_EXHAUSTED"),
    ],
)
def test_throttling_is_retried(error: Exception) -> None:
    failure = classify(error)

    assert (failure.error_class, failure.retryable) == (F.RATE_LIMITED, True)


@pytest.mark.contract("C-50")
@pytest.mark.parametrize(
    "error",
    [
        openai(429, code="insufficient_quota", kind="insufficient_quota"),
        openai(429, kind="insufficient_quota"),
        openai(429, code="billing_hard_limit_reached"),
        openai(400, code="billing_not_active"),
        openai(429, code="project_spend_limit_hit"),
        anthropic(402, "billing_error"),
        anthropic(400, "invalid_request_error", "Your credit balance is too low to use the API"),
        answered(402),
    ],
)
def test_an_empty_account_is_no_rate_limit_and_opens_the_breaker(error: Exception) -> None:
    failure = classify(error)

    assert (failure.error_class, failure.retryable, failure.opens_breaker) == (F.QUOTA_EXHAUSTED, False, True)


@pytest.mark.contract("C-50")
def test_the_code_decides_and_not_the_type_beside_it() -> None:
    assert classify(openai(429, code="rate_limit_exceeded", kind="insufficient_quota")).error_class is F.RATE_LIMITED


@pytest.mark.contract("E-04")
@pytest.mark.parametrize(
    "error",
    [
        answered(500),
        answered(529),
        answered(599),
        openai(500, code="internal_error"),
        shaped("provider", "Odd", code="internal_error"),
        anthropic(529, "overloaded_error"),
        shaped("openai", "APIResponseValidationError", status_code=200),
        Failed(F.UPSTREAM_5XX),
    ],
)
def test_an_upstream_error_is_retried_until_the_fifth_failure_ends_the_job(error: Exception) -> None:
    assert classify(error).error_class is F.UPSTREAM_5XX
    assert isinstance(judged(error, attempt=4), Retried)

    ended = judged(error, attempt=5)

    assert isinstance(ended, Died)
    assert ended.reason is Reason.BUDGET_EXHAUSTED


@pytest.mark.contract("E-05", "C-48")
@pytest.mark.parametrize(
    "error",
    [
        answered(409),
        answered(412),
        asyncpg.SerializationError("text of a user"),
        asyncpg.DeadlockDetectedError("text of a user"),
        asyncpg.LockNotAvailableError("text of a user"),
        asyncpg.UniqueViolationError("text of a user"),
        psycopg.errors.SerializationFailure("text of a user"),
        psycopg.errors.DeadlockDetected("text of a user"),
        caused(sqlalchemy_errors.DBAPIError("select", {}, Exception()), asyncpg.SerializationError("text of a user")),
        shaped("sqlalchemy.orm.exc", "StaleDataError"),
    ],
)
def test_a_conflict_is_retried_only_where_the_step_may_run_twice(error: Exception) -> None:
    safe, unsafe = classify(error, idempotent=True), classify(error, idempotent=False)

    assert safe.error_class is unsafe.error_class is F.CONFLICT
    assert (safe.retryable, unsafe.retryable) == (True, False)


@pytest.mark.contract("E-05")
def test_a_send_that_may_have_happened_under_the_same_key_is_never_repeated() -> None:
    failure = classify(shaped("resend", "ResendError", code="invalid_idempotent_request"), idempotent=True)

    assert (failure.error_class, failure.retryable) == (F.CONFLICT, False)


def broken_json() -> Exception:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    return caught.value


def broken_model() -> Exception:
    class Model(pydantic.BaseModel):
        required: int

    with pytest.raises(pydantic.ValidationError) as caught:
        Model.model_validate({})
    return caught.value


@pytest.mark.contract("E-06")
@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (broken_json, F.SCHEMA_INVALID),
        (broken_model, F.SCHEMA_INVALID),
        (lambda: answered(400), F.SCHEMA_INVALID),
        (lambda: answered(422), F.SCHEMA_INVALID),
        (lambda: answered(413), F.PAYLOAD_REJECTED),
        (lambda: openai(400, code="context_length_exceeded"), F.SCHEMA_INVALID),
        (lambda: asyncpg.NotNullViolationError("text of a user"), F.SCHEMA_INVALID),
        (lambda: psycopg.errors.InvalidTextRepresentation("text of a user"), F.SCHEMA_INVALID),
        (lambda: ArgumentsInvalid("no such field"), F.SCHEMA_INVALID),
        (lambda: PayloadRejected("payload at $ is bytes"), F.PAYLOAD_REJECTED),
        (lambda: Failed(F.LEXICON_BLOCKED), F.LEXICON_BLOCKED),
        (lambda: Failed(F.LOCALE_MISMATCH), F.LOCALE_MISMATCH),
    ],
)
def test_bad_data_ends_the_job_at_its_first_attempt(make: Callable[[], Exception], expected: F) -> None:
    verdict = judged(make())

    assert isinstance(verdict, Died)
    assert (verdict.failure.error_class, verdict.reason) == (expected, Reason.NON_RETRYABLE)


@pytest.mark.contract("E-07")
@pytest.mark.parametrize(
    "error",
    [
        answered(401),
        answered(403),
        openai(401, code="invalid_api_key"),
        gemini(400, "INVALID_ARGUMENT", [{"reason": "API_KEY_INVALID"}]),
        shaped("google.auth.exceptions", "RefreshError"),
        asyncpg.InvalidPasswordError("text of a user"),
        psycopg.errors.InsufficientPrivilege("text of a user"),
        shaped("aiosmtplib.errors", "SMTPAuthenticationError", code=535),
    ],
)
def test_refused_credentials_end_the_job_at_its_first_attempt(error: Exception) -> None:
    verdict = judged(error)

    assert isinstance(verdict, Died)
    assert verdict.failure.error_class is F.AUTH_DENIED
    assert verdict.failure.opens_breaker


@pytest.mark.contract("E-09")
@pytest.mark.parametrize("error", [answered(404), answered(410), anthropic(404, "not_found_error")])
def test_a_missing_thing_ends_the_job_at_its_first_attempt(error: Exception) -> None:
    verdict = judged(error)

    assert isinstance(verdict, Died)
    assert verdict.failure.error_class is F.NOT_FOUND


@pytest.mark.contract("E-10")
@pytest.mark.parametrize(
    "error",
    [
        openai(400, code="content_policy_violation"),
        openai(400, code="content_filter"),
        shaped("openai", "ContentFilterFinishReasonError"),
        Failed(F.POLICY_REJECTED),
    ],
)
def test_a_policy_reject_ends_the_job_and_escalates(error: Exception) -> None:
    verdict = judged(error)

    assert isinstance(verdict, Died)
    assert (verdict.failure.error_class, verdict.alert) == (F.POLICY_REJECTED, "escalation")
    assert verdict.failure.escalates


@pytest.mark.contract("E-10")
def test_a_policy_reject_that_was_expected_escalates_nothing() -> None:
    verdict = judged(Failed(F.POLICY_REJECTED, expected=True))

    assert isinstance(verdict, Died)
    assert verdict.alert is None


@pytest.mark.contract("E-11")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (AttributeError("'NoneType' object has no attribute 'x'"), F.RUNTIME_BUG),
        (RuntimeError("illegal state"), F.RUNTIME_BUG),
        (AssertionError(), F.RUNTIME_BUG),
        (answered(418), F.RUNTIME_BUG),
        (openai(404, code="model_not_found"), F.CONFIG_INVALID),
        (openai(400, param="model"), F.CONFIG_INVALID),
        (shaped("httpx", "UnsupportedProtocol"), F.CONFIG_INVALID),
        (psycopg.errors.InvalidCatalogName("text of a user"), F.CONFIG_INVALID),
        (ssl.SSLCertVerificationError("self-signed"), F.CONFIG_INVALID),
    ],
)
def test_a_bug_or_bad_configuration_ends_the_job_and_pages(error: Exception, expected: F) -> None:
    verdict = judged(error)

    assert isinstance(verdict, Died)
    assert (verdict.failure.error_class, verdict.alert) == (expected, "page")


@pytest.mark.contract("E-20")
def test_a_failure_that_turns_permanent_stops_the_retries_at_once() -> None:
    assert isinstance(judged(answered(503), attempt=1), Retried)

    ended = judged(answered(403), attempt=2)

    assert isinstance(ended, Died)
    assert ended.reason is Reason.NON_RETRYABLE


@pytest.mark.contract("C-50")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (shaped("aiosmtplib.errors", "SMTPResponseException", code=451), F.UPSTREAM_5XX),
        (shaped("aiosmtplib.errors", "SMTPDataError", code=552), F.PAYLOAD_REJECTED),
        (shaped("aiosmtplib.errors", "SMTPRecipientRefused", code=550), F.RECIPIENT_REJECTED),
        (shaped("smtplib", "SMTPRecipientsRefused"), F.RECIPIENT_REJECTED),
        (shaped("smtplib", "SMTPSenderRefused", smtp_code=421), F.NETWORK_RESET),
        (asyncpg.QueryCanceledError("text of a user"), F.NETWORK_TIMEOUT),
        (asyncpg.TooManyConnectionsError("text of a user"), F.UPSTREAM_5XX),
        (asyncpg.AdminShutdownError("text of a user"), F.NETWORK_RESET),
        (psycopg.OperationalError("text of a user"), F.NETWORK_RESET),
        (psycopg.errors.UndefinedTable("text of a user"), F.RUNTIME_BUG),
        (DatabaseUnavailable("the server is away"), F.NETWORK_RESET),
        (
            shaped("botocore", "ClientError", response={"Error": {"Code": "ThrottlingException"}}),
            F.RATE_LIMITED,
        ),
        (
            shaped("botocore", "ClientError", response={"ResponseMetadata": {"HTTPStatusCode": 404}}),
            F.NOT_FOUND,
        ),
        (shaped("aiohttp", "ClientResponseError", status=503), F.NETWORK_RESET),
    ],
)
def test_mail_servers_databases_and_other_clients_are_understood(error: Exception, expected: F) -> None:
    assert classify(error).error_class is expected


@pytest.mark.contract("C-50")
def test_only_codes_of_our_own_table_are_handed_on() -> None:
    assert classify(openai(429, code="insufficient_quota")).upstream_code == "insufficient_quota"
    assert classify(openai(429, code="text_of_a_user")).upstream_code is None
    assert classify(openai(429, code="text_of_a_user")).upstream_status == 429
