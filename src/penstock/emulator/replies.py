"""Errors in each provider's own JSON, and the replies that faults ask for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.responses import JSONResponse, Response

from penstock.emulator.faults import Rule

FAULT: Final = 500  # from this status on it is the provider's own
PAGE: Final = "<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>"
_ANTHROPIC_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_GEMINI_WORDS: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_RESEND_NAMES: Final[Mapping[int, str]] = {
    400: "validation_error",
    401: "missing_api_key",
    403: "invalid_api_key",
    404: "not_found",
    405: "method_not_allowed",
    409: "concurrent_idempotent_requests",
    422: "validation_error",
    429: "rate_limit_exceeded",
    451: "security_error",
    500: "internal_server_error",
}
_OPENAI_TYPES: Final[Mapping[int, str]] = {
    429: "requests",
    500: "server_error",
    502: "server_error",
    503: "server_error",
}


class Refused(Exception):
    """Answer this request with an error."""

    def __init__(self, status: int, code: str | None, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param


def error_body(provider: str, status: int, code: str | None, message: str, param: str | None = None) -> dict[str, Any]:
    """An error as *provider* writes it."""
    if provider == "anthropic":
        kind = code if code and code.endswith("_error") else _ANTHROPIC_TYPES.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_emulated"}
    if provider in {"resend", "webhook"}:
        name = code or _RESEND_NAMES.get(status, "application_error" if status >= FAULT else "unexpected")
        return {"statusCode": status, "name": name, "message": message}
    if provider == "gemini":
        word = _GEMINI_WORDS.get(status, "UNKNOWN")
        if code == "API_KEY_INVALID":
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "googleapis.com"}
            return {"error": {"code": status, "message": message, "status": word, "details": [info]}}
        return {"error": {"code": status, "message": message, "status": code if code and code.isupper() else word}}
    kind = "insufficient_quota" if code == "insufficient_quota" else _OPENAI_TYPES.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error(provider: str, refused: Refused) -> JSONResponse:
    """A refusal as *provider* sends it."""
    body = error_body(provider, refused.status, refused.code, refused.message, refused.param)
    return JSONResponse(body, refused.status)


class _Preset(NamedTuple):
    status: int
    codes: Mapping[str, str | None]
    message: str


_PRESETS: Final[Mapping[str, _Preset]] = {
    "rate_limited": _Preset(429, {"openai": "rate_limit_exceeded"}, "Rate limit reached. Please try again later."),
    "quota": _Preset(
        429,
        {"openai": "insufficient_quota", "resend": "daily_quota_exceeded"},
        "You exceeded your current quota, please check your plan.",
    ),
    "server_error": _Preset(500, {"openai": "server_error"}, "The server had an error while processing your request."),
    "bad_gateway": _Preset(502, {}, PAGE),
    "unavailable": _Preset(503, {}, "The service is currently unavailable."),
    "gateway_timeout": _Preset(504, {}, "The request timed out upstream."),
    "overloaded": _Preset(529, {}, "Overloaded"),
    "unauthorized": _Preset(401, {"openai": "invalid_api_key", "gemini": "API_KEY_INVALID"}, "API key not valid."),
    "forbidden": _Preset(403, {}, "You have no access to this resource."),
    "conflict": _Preset(409, {}, "The request conflicts with another one."),
    "html": _Preset(200, {}, PAGE),
    "broken_json": _Preset(200, {}, '{"id": "half an obj'),
    "empty_body": _Preset(200, {}, ""),
}
_RAW: Final = {
    "bad_gateway": "text/html",
    "html": "text/html",
    "broken_json": "application/json",
    "empty_body": "text/plain",
}
_GEMINI_STATUS: Final = {"overloaded": 503, "unauthorized": 400}


def scripted(provider: str, rule: Rule) -> Response:
    """The reply that a fault asks for."""
    preset = _PRESETS.get(rule.kind, _Preset(500, {}, "An emulated error."))
    usual = _GEMINI_STATUS.get(rule.kind, preset.status) if provider == "gemini" else preset.status
    status = int(rule.get("status", usual))
    headers = {str(name): str(value) for name, value in (rule.get("headers") or {}).items()}
    wait = rule.get("retry_after", 1 if rule.kind == "rate_limited" else None)
    if wait is not None:
        headers.setdefault("retry-after", str(wait))
    if rule.get("json") is not None:
        return JSONResponse(rule.get("json"), status, headers)
    if rule.get("body") is not None or rule.kind in _RAW:
        return Response(rule.get("body", preset.message), status, headers, _RAW.get(rule.kind, "text/plain"))
    code = rule.get("code", preset.codes.get(provider))
    return JSONResponse(error_body(provider, status, code, rule.get("message", preset.message)), status, headers)
