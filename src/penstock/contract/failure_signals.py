"""What an exception tells about itself, read without trusting it.

SDKs name the same things differently, and a property of an exception may
itself raise. Every reader here returns a plain value or None, never an error,
and never the exception's message: a message may quote a user's text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock.contract.failure_tables import BY_CODE
from penstock.contract.failures import FailureClass
from penstock.contract.retry_after import LONGEST, ZERO, http_date, parse_retry_after

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

_SQLSTATE: Final = re.compile(r"[0-9A-Z]{5}", re.ASCII)
_GOOGLE_DELAY: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s", re.ASCII)
_LONGEST_CODE: Final = 80
_MANY: Final = 20  # details of one error that are looked at
_ERROR_STATUSES: Final = range(300, 600)
_ANTHROPIC_CREDIT: Final = "credit balance is too low"  # comes as a plain 400; nothing but the message tells


def attribute(thing: object, name: str) -> object:
    """The attribute, or None where it is missing or refuses to be read."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def http_status(error: BaseException) -> int | None:
    """The HTTP status behind *error*, wherever its SDK keeps it."""
    response = attribute(error, "response")
    for value in (
        attribute(error, "upstream_status"),
        attribute(error, "status_code"),
        attribute(error, "status"),
        attribute(response, "status_code"),
        attribute(response, "status"),
        _get(_get(response, "ResponseMetadata"), "HTTPStatusCode"),  # botocore
        attribute(error, "code"),
    ):
        if type(value) is int and value in _ERROR_STATUSES:
            return value
    return None


def smtp_reply(error: BaseException) -> int | None:
    """The reply code of a mail server: smtplib says `smtp_code`, aiosmtplib `code`."""
    for name in ("smtp_code", "code"):
        value = attribute(error, name)
        if type(value) is int and value in _ERROR_STATUSES:
            return value
    return None


def sqlstate(error: BaseException) -> str | None:
    """The SQLSTATE of a PostgreSQL driver's error; psycopg2 calls it `pgcode`."""
    for name in ("sqlstate", "pgcode"):
        value = attribute(error, name)
        if isinstance(value, str) and _SQLSTATE.fullmatch(value):
            return str(value)
    return None


def known_code(error: BaseException) -> str | None:
    """The first provider code of *error* that our table knows, in lower case.

    A code that no table knows is not handed on: it is text from outside.
    """
    for value in _codes(error):
        if isinstance(value, str) and len(value) <= _LONGEST_CODE:
            code = value.strip().lower()
            if code in BY_CODE:
                return code
            if "spend_limit" in code:
                return "spend_limit_reached"
    return None


def own_code(error: BaseException) -> str | None:
    """The code that an error of ours has kept, if our table knows it."""
    code = attribute(error, "upstream_code")
    return code if isinstance(code, str) and code in BY_CODE else None


def own_words(error: BaseException) -> str:
    """What an error of ours says in words."""
    why = attribute(error, "why")
    return why if isinstance(why, str) and isinstance(attribute(error, "error_class"), FailureClass) else ""


def names_the_model(error: BaseException) -> bool:
    """Whether the provider says that the request's model is what it does not know."""
    return attribute(error, "param") == "model" or _get(_error_body(error), "param") == "model"


def wait_asked_for(error: BaseException, now: datetime | None) -> timedelta | None:
    """The `Retry-After` of *error*: an attribute, a header, or Google's RetryInfo."""
    own = _duration(attribute(error, "retry_after"), now)
    if own is not None:
        return own
    headers = attribute(attribute(error, "response"), "headers")
    asked = _from_headers(attribute(error, "headers") if headers is None else headers, now)
    return _from_details(error) if asked is None else asked


def _codes(error: BaseException) -> Iterator[object]:
    """Every place that may hold a code, the most exact first: a code says more than a type."""
    body = _error_body(error)
    yield attribute(error, "code")
    yield _get(body, "code")
    yield _get(_get(attribute(error, "response"), "Error"), "Code")  # botocore
    for detail in _details(body):
        yield _get(detail, "reason")
    yield attribute(error, "status")
    yield _get(body, "status")
    yield attribute(error, "error_type")
    yield attribute(error, "type")
    yield _get(body, "type")
    message = _get(body, "message")
    if isinstance(message, str) and _ANTHROPIC_CREDIT in message:
        yield "credit_balance_too_low"


def _error_body(error: BaseException) -> object:
    """The provider's error object: `body` of openai and anthropic, `details` of google-genai."""
    for name in ("body", "details"):
        body = attribute(error, name)
        if isinstance(body, Mapping):
            inner = _get(body, "error")
            return inner if isinstance(inner, Mapping) else body
    return None


def _details(body: object) -> Iterator[object]:
    details = _get(body, "details")
    if isinstance(details, list | tuple):
        yield from islice(details, _MANY)


def _get(mapping: object, key: str) -> object:
    """The value of *key* where *mapping* is something like a mapping, else None."""
    try:
        return mapping.get(key)  # type: ignore[attr-defined]  # headers of urllib are no Mapping but have a get
    except Exception:
        return None


def _from_headers(headers: object, now: datetime | None) -> timedelta | None:
    milliseconds = parse_retry_after(_header(headers, "retry-after-ms"), None)
    if milliseconds is not None:
        return milliseconds / 1000
    # The upstream's own Date, where it sends one, makes a skewed clock of ours harmless.
    return parse_retry_after(_header(headers, "retry-after"), http_date(_header(headers, "date")) or now)


def _header(headers: object, name: str) -> str:
    for spelling in (name, name.title()):
        value = _get(headers, spelling)
        if isinstance(value, str):
            return value
    return ""


def _from_details(error: BaseException) -> timedelta | None:
    for detail in _details(_error_body(error)):
        asked = _get(detail, "retryDelay")
        match = _GOOGLE_DELAY.fullmatch(asked) if isinstance(asked, str) else None
        if match:
            return min(timedelta(seconds=float(match[1])), LONGEST)
    return None


def _duration(value: object, now: datetime | None) -> timedelta | None:
    """A wait in the bounds of sense: a past one is none, an endless one the longest; what is no number is ignored."""
    if isinstance(value, timedelta):
        return min(max(value, ZERO), LONGEST)
    if isinstance(value, str):
        return parse_retry_after(value, now)
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:  # noqa: PLR0124 - NaN
        return timedelta(seconds=min(max(value, 0), LONGEST.total_seconds()))  # a float can hold it only now
    return None
