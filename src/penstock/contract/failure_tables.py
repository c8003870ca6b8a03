"""Which signal means which failure class (C-50).

A signal is an HTTP status, a provider's error code, an SQLSTATE, an SMTP reply
or the name of an exception class. Names stand here instead of imports, so that
no SDK has to be installed for its errors to be understood.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from penstock.contract import absence
from penstock.contract.failures import FailureClass as F

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def _table(rows: Mapping[F, Iterable[str]]) -> Mapping[str, F]:
    return MappingProxyType({signal: error_class for error_class, signals in rows.items() for signal in signals})


BY_HTTP_STATUS: Final[Mapping[int, F]] = MappingProxyType({
    301: F.CONFIG_INVALID, 302: F.CONFIG_INVALID, 307: F.CONFIG_INVALID, 308: F.CONFIG_INVALID,
    400: F.SCHEMA_INVALID, 401: F.AUTH_DENIED, 402: F.QUOTA_EXHAUSTED, 403: F.AUTH_DENIED, 404: F.NOT_FOUND,
    405: F.CONFIG_INVALID, 407: F.AUTH_DENIED, 408: F.NETWORK_TIMEOUT, 409: F.CONFLICT, 410: F.NOT_FOUND,
    412: F.CONFLICT, 413: F.PAYLOAD_REJECTED, 414: F.PAYLOAD_REJECTED, 415: F.SCHEMA_INVALID,
    422: F.SCHEMA_INVALID, 423: F.CONFLICT, 429: F.RATE_LIMITED, 431: F.PAYLOAD_REJECTED, 451: F.POLICY_REJECTED,
    500: F.UPSTREAM_5XX, 502: F.NETWORK_RESET, 503: F.NETWORK_RESET, 504: F.NETWORK_TIMEOUT,
    522: F.NETWORK_TIMEOUT, 524: F.NETWORK_TIMEOUT, 529: F.UPSTREAM_5XX,
})  # fmt: skip

# Lower-case, because providers disagree about case. A code goes before the status that carries it.
BY_CODE: Final = _table({
    F.QUOTA_EXHAUSTED: (
        "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error",
        "credit_balance_too_low", "insufficient_credits", "spend_limit_reached", "spend_limit_exceeded",
        "monthly_quota_exceeded", "daily_quota_exceeded", "account_deactivated", "payment_required",
    ),
    F.RATE_LIMITED: (
        "rate_limit_exceeded", "rate_limit_error", "slow_down", "resource_exhausted", "too_many_requests",
        "token_limit_exceeded", "throttled", "throttling_exception", "throttlingexception",
    ),
    F.UPSTREAM_5XX: (
        "internal_error", "internal_server_error", "server_error", "api_error", "overloaded_error", "overloaded",
        "engine_overloaded", "server_overloaded", "application_error", "internal",
    ),
    F.NETWORK_TIMEOUT: ("timeout_error", "deadline_exceeded", "request_timeout"),
    F.NETWORK_RESET: ("unavailable", "service_unavailable"),
    F.CONFLICT: ("concurrent_idempotent_requests", "invalid_idempotent_request", "aborted", "version_conflict"),
    F.AUTH_DENIED: (
        "invalid_api_key", "api_key_invalid", "missing_api_key", "restricted_api_key", "authentication_error",
        "permission_error", "permission_denied", "unauthenticated", "unauthorized", "forbidden", "token_expired",
        "expired_token", "invalid_token", "api_key_expired",
    ),
    F.CONFIG_INVALID: (
        "model_not_found", "unknown_model", "invalid_model", "model_deprecated", "deployment_not_found",
        "unsupported_country_region_territory", "failed_precondition", "unimplemented", "data_residency_mismatch",
    ),
    F.POLICY_REJECTED: (
        "content_policy_violation", "content_filter", "content_filtered", "moderation_blocked", "policy_violation",
        "image_content_policy_violation", "refusal", "safety", "recitation", "blocklist", "prohibited_content",
        "spii", "responsible_ai_policy_violation", "invalid_prompt", "bio_policy", "misalignment_policy_violation",
    ),
    F.PAYLOAD_REJECTED: ("request_too_large", "payload_too_large"),
    F.SCHEMA_INVALID: (
        "context_length_exceeded", "string_above_max_length", "missing_required_parameter", "invalid_json_line",
        "invalid_value", "unsupported_parameter", "unsupported_value", "invalid_argument", "validation_error",
        "missing_required_field", "invalid_parameter", "max_output_tokens",
    ),
    F.NOT_FOUND: ("not_found_error", "not_found"),
    F.BATCH_EXPIRED: ("batch_expired", "batch_cancelled", "batch_canceled"),
    F.RECIPIENT_REJECTED: ("invalid_recipient", "inactive_recipient"),
})  # fmt: skip

# The same request cannot be sent again under this key, and it may have been sent: look it up instead.
NEVER_REPEATED: Final = frozenset({"invalid_idempotent_request"})

# A whole SQLSTATE first, then its class (the first two characters). Those of an absent database are in `absence`.
BY_SQLSTATE: Final[Mapping[str, F]] = MappingProxyType({**absence.STATES, **_table({
    F.CONFLICT: ("23505", "23P01", "55006"),
    F.UPSTREAM_5XX: ("XX", "F0", "HV"),
    F.AUTH_DENIED: ("28", "42501"),
    F.CONFIG_INVALID: ("3D", "3F"),
    F.PAYLOAD_REJECTED: ("54",),
    F.SCHEMA_INVALID: ("22", "23"),
})})  # fmt: skip

# SMTP replies; a 4yz reply that is not named here is the server asking for another try.
BY_SMTP_REPLY: Final[Mapping[int, F]] = MappingProxyType({
    421: F.NETWORK_RESET, 530: F.AUTH_DENIED, 534: F.AUTH_DENIED, 535: F.AUTH_DENIED,
    538: F.CONFIG_INVALID, 550: F.RECIPIENT_REJECTED, 551: F.RECIPIENT_REJECTED, 552: F.PAYLOAD_REJECTED,
    553: F.RECIPIENT_REJECTED, 554: F.POLICY_REJECTED,
})  # fmt: skip

_HTTPX: Final[Mapping[str, F]] = _table(
    {
        F.NETWORK_TIMEOUT: ("TimeoutException",),
        F.NETWORK_RESET: ("NetworkError", "RemoteProtocolError", "ProxyError"),
        F.UPSTREAM_5XX: ("DecodingError",),
        F.CONFIG_INVALID: ("UnsupportedProtocol", "InvalidURL", "TooManyRedirects"),
    }
)
_LLM: Final[Mapping[str, F]] = _table(
    {
        F.NETWORK_TIMEOUT: ("APITimeoutError",),
        F.NETWORK_RESET: ("APIConnectionError",),
        F.UPSTREAM_5XX: ("APIResponseValidationError", "InternalServerError"),
        F.RATE_LIMITED: ("RateLimitError",),
        F.AUTH_DENIED: ("AuthenticationError", "PermissionDeniedError", "OAuthError"),
        F.NOT_FOUND: ("NotFoundError",),
        F.CONFLICT: ("ConflictError",),
        F.SCHEMA_INVALID: ("BadRequestError", "UnprocessableEntityError", "LengthFinishReasonError"),
        F.POLICY_REJECTED: ("ContentFilterFinishReasonError",),
    }
)
_SMTP: Final[Mapping[str, F]] = _table(
    {
        F.NETWORK_TIMEOUT: ("SMTPTimeoutError",),
        F.NETWORK_RESET: ("SMTPServerDisconnected", "SMTPConnectError"),
        F.AUTH_DENIED: ("SMTPAuthenticationError",),
        F.RECIPIENT_REJECTED: ("SMTPRecipientsRefused", "SMTPRecipientRefused"),
        F.CONFIG_INVALID: ("SMTPNotSupported", "SMTPNotSupportedError", "SMTPSenderRefused"),
    }
)

# (top package, class name); the class and then its bases are looked up, most special first.
BY_NAME: Final[Mapping[str, Mapping[str, F]]] = MappingProxyType({
    "builtins": _table({
        F.NETWORK_TIMEOUT: ("TimeoutError",),
        F.NETWORK_RESET: ("ConnectionError", "EOFError"),
        F.SCHEMA_INVALID: ("UnicodeError",),
    }),
    "socket": _table({F.DNS_FAILURE: ("gaierror", "herror")}),
    "ssl": _table({F.CONFIG_INVALID: ("SSLCertVerificationError",), F.NETWORK_RESET: ("SSLError",)}),
    "asyncio": _table({F.NETWORK_RESET: ("IncompleteReadError",)}),
    "http": _table({F.NETWORK_RESET: ("IncompleteRead", "BadStatusLine")}),
    "urllib": _table({F.NETWORK_RESET: ("URLError", "ContentTooShortError")}),
    "json": _table({F.SCHEMA_INVALID: ("JSONDecodeError",)}),
    "httpx": _HTTPX,
    "httpx2": _HTTPX,
    "httpcore": _HTTPX,
    "httpcore2": _HTTPX,
    "requests": _table({
        F.NETWORK_TIMEOUT: ("Timeout",),
        F.NETWORK_RESET: ("ConnectionError", "ChunkedEncodingError"),
        F.UPSTREAM_5XX: ("JSONDecodeError", "ContentDecodingError"),
        F.CONFIG_INVALID: ("MissingSchema", "InvalidSchema", "InvalidURL", "TooManyRedirects"),
    }),
    "urllib3": _table({
        F.DNS_FAILURE: ("NameResolutionError",),
        F.NETWORK_TIMEOUT: ("TimeoutError",),
        F.NETWORK_RESET: ("ProtocolError", "NewConnectionError", "MaxRetryError", "ProxyError"),
    }),
    "aiohttp": _table({
        F.DNS_FAILURE: ("ClientConnectorDNSError",),
        F.NETWORK_TIMEOUT: ("ServerTimeoutError",),
        F.NETWORK_RESET: ("ClientConnectionError", "ClientPayloadError"),
        F.CONFIG_INVALID: ("InvalidURL", "ClientConnectorCertificateError"),
        F.UPSTREAM_5XX: ("ContentTypeError",),
    }),
    "openai": _LLM,
    "anthropic": _LLM,
    "google": _table({
        F.UPSTREAM_5XX: ("ServerError", "UnknownApiResponseError"),
        F.AUTH_DENIED: ("RefreshError", "DefaultCredentialsError"),
    }),
    "aiosmtplib": _SMTP,
    "smtplib": _SMTP,
    **absence.NAMES,
    "sqlalchemy": {**absence.NAMES["sqlalchemy"], "StaleDataError": F.CONFLICT},
    "pydantic": _table({F.SCHEMA_INVALID: ("ValidationError",)}),
    "pydantic_core": _table({F.SCHEMA_INVALID: ("ValidationError",)}),
    "jsonschema": _table({F.SCHEMA_INVALID: ("ValidationError",), F.CONFIG_INVALID: ("SchemaError",)}),
    "penstock": _table({
        F.PAYLOAD_REJECTED: ("PayloadRejected",),
        F.SCHEMA_INVALID: ("ArgumentsInvalid",),
        F.CONFIG_INVALID: ("SettingsInvalid", "UnknownType", "UnsafeLogin", "SchemaOutdated"),
        F.NETWORK_RESET: ("DatabaseUnavailable",),
        F.LEASE_EXPIRED: ("LeaseLost",),
        F.NOT_FOUND: ("NotFound",),
        F.CONFLICT: ("EffectUncertain",),
    }),
})  # fmt: skip

# They only say that something below went wrong; a cause that says more goes first.
VAGUE: Final = frozenset({
    "APIConnectionError", "ConnectError", "NetworkError", "URLError", "ConnectionError", "MaxRetryError",
    "NewConnectionError", "ClientConnectorError", "ClientConnectionError", "ClientOSError", "ClientConnectorSSLError",
    "SMTPConnectError", "DatabaseUnavailable", "SSLError", "ProtocolError", "OperationalError",
})  # fmt: skip
