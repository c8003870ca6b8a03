"""Payloads are checked whole before anything is written (faults 40 and 41).

`encode` turns arguments into compact JSON text that PostgreSQL stores as
jsonb. What cannot be stored is refused with the place and the reason, and
never with the content: keys are content too, so a place is named by position
(`$.#2[3]` is item 3 of the second key's list), except for the declared fields
of a model or dataclass, which are code.

Accepted: dict with string keys, list, tuple, str, int of 64 bits, finite
float, bool, None; dataclasses and pydantic models; and, as JSON text or
number, datetime, date, time (ISO 8601), timedelta (seconds), UUID, Decimal
(text, so that no digit is lost) and Enum (its value). Refused: bytes (encode
them as base64 yourself), sets (no order, so a key could not tell equal
arguments; those that a pydantic model declares are sorted), two keys of one
text, and every other type. What a model would lose on the way is refused too:
see `models`.
"""

from __future__ import annotations

import json.encoder
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.contract import plain
from penstock.contract.errors import PayloadRejected
from penstock.contract.plain import Refusal
from penstock.contract.texts import clean_text

__all__ = ["MAX_BYTES", "MAX_DEPTH", "clean_text", "encode"]

MAX_BYTES: Final = 262_144
MAX_DEPTH: Final = 64
_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**64 - 1
_ESCAPED_NUL: Final = "\\u0000"


def _encoder() -> Callable[[object], str]:
    """A writer of compact JSON, made once: `json` builds its C encoder anew for every call, four times the work.

    ASCII is not forced: shorter text, and a lone surrogate shows when the text
    is encoded. Circles are not looked for: the walk has already shown that the
    value is a tree of bounded depth.
    """
    plain_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without the C part
        return plain_json.encode
    write = make(None, plain_json.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(write(value, 0))


_to_text: Final = _encoder()
_SCALARS: Final = frozenset({str, float, bool, type(None)})


@dataclass(frozen=True, slots=True)
class _Limits:
    max_bytes: int
    max_depth: int


def encode(value: object, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> str:
    """The JSON text of *value*, or `PayloadRejected`; nothing has been written by then.

    Small plain payloads take one pass over the value and one over the text.
    The place of a fault is searched for only when there is one.
    """
    opened = value if type(value) is dict else plain.open_up(value)
    if _is_plain(opened, max_bytes, max_depth):
        text = _encoded(opened)
        if text is not None and _fits(text, max_bytes):
            return text
    return _encode_with_care(value, _Limits(max_bytes, max_depth))


def _is_plain(value: object, max_nodes: int, max_depth: int) -> bool:  # noqa: C901, PLR0911, PLR0912 - one loop: enqueue's hot path
    """Whether *value* is a shallow tree of JSON's own types; walked level by level, so no recursion.

    Counting the nodes stops a value whose parts are shared many times over.
    """
    if type(value) not in (dict, list, tuple):
        return type(value) in _SCALARS or (type(value) is int and _LOWEST <= value <= _HIGHEST)
    level: list[Any] = [value]
    nodes = 0
    for _ in range(max_depth):
        below: list[Any] = []
        for container in level:
            nodes += len(container)
            if nodes > max_nodes:
                return False
            if type(container) is dict:
                for key in container:
                    if type(key) is not str:
                        return False
            for child in container.values() if type(container) is dict else container:
                kind = type(child)
                if kind is str:
                    continue
                if kind is int:
                    if not _LOWEST <= child <= _HIGHEST:
                        return False
                elif kind is dict or kind is list or kind is tuple:
                    below.append(child)
                elif kind not in _SCALARS:
                    return False
        if not below:
            return True
        level = below
    return False


def _encoded(value: object) -> str | None:
    try:
        return _to_text(value)
    except (ValueError, RecursionError):  # NaN or infinity; deeper than the interpreter goes
        return None


def _fits(text: str, max_bytes: int) -> bool:
    """Whether PostgreSQL takes *text*: small enough, no NUL, no lone surrogate."""
    if _ESCAPED_NUL in text or len(text) > max_bytes:
        return False
    if text.isascii():
        return True
    try:
        return len(text.encode()) <= max_bytes
    except UnicodeEncodeError:
        return False


def _encode_with_care(value: object, limits: _Limits) -> str:
    """The slow way: convert the types that are not JSON's, and say where a fault is.

    The refusal is raised outside every `except`, so that no context drags the
    content along.
    """
    found = _careful(value, limits)
    if isinstance(found, Refusal):
        raise PayloadRejected(f"payload {found}")
    return found


def _careful(value: object, limits: _Limits) -> str | Refusal:
    converted = plain.convert(value, max_depth=limits.max_depth, max_nodes=limits.max_bytes)
    if isinstance(converted, Refusal):
        return converted
    text = _encoded(converted.value)
    if text is None:
        return Refusal("$", "cannot be written as JSON; send plain lists, dicts, texts and numbers")
    size = len(text.encode())
    if size > limits.max_bytes:
        return Refusal(
            "$",
            f"is {size} bytes of JSON and the limit is {limits.max_bytes}; store the data in a table of yours "
            "and enqueue its id, or raise PENSTOCK_PAYLOAD_MAX_BYTES",
        )
    return text
