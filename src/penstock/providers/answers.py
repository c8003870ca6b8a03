"""What a model said, checked before anybody believes it.

Too large, a NUL, a lone surrogate, not JSON, or JSON that does not fit its
schema: each is `SCHEMA_INVALID`, and nothing of the text is in the error.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from penstock.contract.calls import Answer, Usage
from penstock.contract.classify import classify
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.providers.failing import Unreadable
from penstock.providers.port import Created, ItemResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MAX_TEXT: Final = 1_000_000  # bytes of one answer
UNSTORABLE: Final = "the answer has a NUL or half a surrogate pair in it, which PostgreSQL cannot store"
MAX_ID: Final = 200
_MOST_TOKENS: Final = 2**31 - 1  # an integer column holds no more
_UNSTORABLE: Final = re.compile("[\\x00\\ud800-\\udfff]")
_LATEST: Final = 253_402_300_799  # the last second of the year 9999


class _Validator(Protocol):
    def is_valid(self, instance: Any) -> bool: ...


def checked_text(text: object) -> str:
    """*text* if PostgreSQL can store it and it is of a bearable size."""
    if not isinstance(text, str):
        raise Failed(FailureClass.SCHEMA_INVALID, "the answer is no text")
    if _UNSTORABLE.search(text):
        raise Failed(FailureClass.SCHEMA_INVALID, UNSTORABLE)
    if len(text) > MAX_TEXT or len(text.encode()) > MAX_TEXT:
        raise Failed(FailureClass.SCHEMA_INVALID, "the answer is larger than 1 MB")
    return text


def fit(answer: Answer, schema: Mapping[str, Any] | None) -> Answer:
    """*answer* with its data, which fits *schema*; without a schema the answer is text and has none.

    A schema that is itself wrong is `CONFIG_INVALID`: no answer could ever fit it.
    """
    if schema is None:
        return replace(answer, data=None)
    validator = _validator(json.dumps(schema, sort_keys=True))
    data = _parsed(answer.text)
    try:
        valid = validator.is_valid(data)
    except Exception:  # nested too deep, or a number that no validator takes
        valid = False
    if not valid:
        raise Failed(FailureClass.SCHEMA_INVALID, "the answer does not fit its JSON schema")
    return replace(answer, data=data)


def as_document(answer: Answer) -> Answer:
    """*answer* with its data where the text is a JSON object or list, as far as can be told without a schema.

    Prose is left as it is; JSON that hides a NUL or a lone surrogate is refused.
    """
    if answer.text.lstrip()[:1] not in ("{", "["):
        return answer
    try:
        data = _loaded(answer.text)
    except (ValueError, RecursionError):
        return answer
    return replace(answer, data=_stored(answer.text, data))


def item_of(
    custom_id: str, read: Callable[[], Answer], *, usage: Usage, at: datetime | None, digest: str
) -> ItemResult:
    """The item that *read* finds; what it raises is that item's failure and nobody else's (A-96)."""
    try:
        return ItemResult(custom_id, answer=as_document(read()), at=at, digest=digest)
    except (Failed, Unreadable) as error:
        return ItemResult(custom_id, failure=classify(error, idempotent=True), usage=usage, at=at, digest=digest)


@contextmanager
def paid(usage: Usage) -> Iterator[None]:
    """Whatever makes an answer count for nothing in here: the failure tells what it has used all the same."""
    unreadable = False
    try:
        yield
    except Failed as failed:
        failed.usage = usage
        raise
    except Unreadable:
        unreadable = True
    if unreadable:
        raise Failed(Unreadable.error_class, usage=usage)


def body_of(content: bytes | bytearray | str) -> dict[str, Any]:
    """The JSON object that a provider answered with; HTML and broken JSON are the upstream's fault."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Unreadable
    return body


def usage_of(body: Mapping[str, Any] | None, read: str, written: str, *more: str) -> Usage:
    """The tokens a provider counted; *more* names further parts of what was written."""
    body = body if isinstance(body, dict) else {}
    return Usage(_tokens(body.get(read)), _tokens(body.get(written)) + sum(_tokens(body.get(name)) for name in more))


def moment(value: object) -> datetime | None:
    """A time as providers write it: seconds since 1970, or ISO 8601. None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LATEST:
        return datetime.fromtimestamp(value, UTC)
    if not isinstance(value, str):
        return None
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def newest(batch: Created) -> datetime:
    """What batches are sorted by; one without a time is older than all others."""
    return batch.created_at or datetime.min.replace(tzinfo=UTC)


def word(value: object) -> str:
    """An id or a model's name as it may be stored; '' for anything that is none."""
    return value if isinstance(value, str) and len(value) <= MAX_ID and value.isascii() and value.isprintable() else ""


def mapping(value: object) -> dict[str, Any]:
    """*value* where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[dict[str, Any]]:
    """The JSON objects of a list; whatever else is in it is left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def count(value: object) -> int | None:
    """A number of things; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _parsed(text: str) -> Any:
    data, failed = None, False
    try:
        data = _loaded(text)
    except (ValueError, RecursionError):
        failed = True
    if failed:
        raise Failed(FailureClass.SCHEMA_INVALID, "the answer is no JSON, and its schema asks for it")
    return _stored(text, data)


def _loaded(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _stored(text: str, data: Any) -> Any:
    """*data* if it can be stored: an escape in *text* hides a NUL or a lone surrogate from `checked_text`."""
    if "\\u" in text and not _storable(data):
        raise Failed(FailureClass.SCHEMA_INVALID, UNSTORABLE)
    return data


def _storable(data: object) -> bool:
    waiting = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend((*value.keys(), *value.values()))
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, str) and _UNSTORABLE.search(value):
            return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)  # NaN and the infinities are no JSON


@lru_cache(maxsize=64)
def _validator(schema: str) -> _Validator:
    """One validator per schema; references to other documents are not followed."""
    import jsonschema_rs

    validator: _Validator | None = None
    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)
    except Exception:
        validator = None
    if validator is None:
        raise Failed(FailureClass.CONFIG_INVALID, "the schema of the lane is no valid JSON schema; mend it")
    return validator


def _tokens(value: object) -> int:
    return min(count(value) or 0, _MOST_TOKENS)
