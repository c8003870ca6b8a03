"""From what callers pass to JSON's own types, with the place of whatever cannot go.

This is the careful path of `payloads.encode`: it runs when a payload holds
other types than JSON's, or a fault. It walks with a list of its own, so that
100,000 levels cost a refusal and not the interpreter's stack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**64 - 1
_SHORT_PATH: Final = 12  # steps shown of a place


@dataclass(frozen=True, slots=True)
class Refusal:
    """Where and why a payload was refused; holds none of its content."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"at {self.place} {self.reason}"


@dataclass(frozen=True, slots=True)
class Converted:
    """A value made of JSON's own types only."""

    value: object


@dataclass(slots=True)
class _Node:
    """One value on its way: where it sits, and the container that waits for it."""

    value: object
    place: tuple[str, ...]
    depth: int
    into: Any
    key: Any


class _Refused(Exception):
    """Carries a reason out of a conversion; never leaves this module."""


def convert(value: object, *, max_depth: int, max_nodes: int) -> Converted | Refusal:
    """A copy of *value* in JSON's own types, or the first fault found."""
    root: list[object] = [None]
    waiting = [_Node(value, (), 1, root, 0)]
    seen = 0
    while waiting:
        node = waiting.pop()
        seen += 1
        if seen > max_nodes:
            return Refusal("$", f"has more than {max_nodes} values; store the data in a table of yours, enqueue its id")
        reason, children = _place(node, max_depth, max_nodes)
        if reason is not None:
            return Refusal(_spell(node.place), reason)
        waiting.extend(children)
    return Converted(root[0])


def open_up(value: object) -> object:
    """The members of a dataclass or a pydantic model, one level down; anything else as it is."""
    if isinstance(value, type):
        return value
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        try:
            return dump(mode="json")
        except Exception:
            return value
    if is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in fields(value)}
    return value


def _place(node: _Node, max_depth: int, max_nodes: int) -> tuple[str | None, list[_Node]]:
    """Put the node's JSON form into its container; return what is below it."""
    try:
        value = _unwrap(node.value)
        if not isinstance(value, dict | list):
            node.into[node.key] = value
            return None, []
        if node.depth > max_depth:
            return f"is nested deeper than {max_depth} levels; flatten it, or enqueue the id of a row", []
        if len(value) > max_nodes:
            return f"has more than {max_nodes} values; store the data in a table of yours, enqueue its id", []
        return None, list(_children(node, value))[::-1]
    except _Refused as refused:
        return str(refused), []


def _children(node: _Node, value: dict[Any, Any] | list[Any]) -> Iterator[_Node]:
    below = node.depth + 1
    if isinstance(value, list):
        items: list[object] = [None] * len(value)
        node.into[node.key] = items
        for index, item in enumerate(value):
            yield _Node(item, (*node.place, f"[{index}]"), below, items, index)
        return
    declared = _declared(node.value)
    members: dict[str, object] = {}
    node.into[node.key] = members
    for position, (key, member) in enumerate(value.items(), start=1):
        name = _key(key, position)
        members[name] = None  # keeps the caller's order
        step = f".{name}" if name in declared else f".#{position}"
        yield _Node(member, (*node.place, step), below, members, name)


def _key(key: object, position: int) -> str:
    if isinstance(key, Enum):
        key = key.value
    if not isinstance(key, str):
        raise _Refused(f"has a key of type {_type(key)} (key {position}); JSON keys are text, convert it first")
    fault = _text_fault(key)
    if fault:
        raise _Refused(f"has a key (key {position}) that {fault}")
    return str.__str__(key)


def _unwrap(value: object) -> object:
    """The JSON form of one value: a scalar, a dict or a list whose members are still unconverted."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _unwrap(value.value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float | Decimal):
        return _number(value)
    if isinstance(value, list | tuple):
        return list(value)
    return _structure(value)


def _structure(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if callable(getattr(value, "model_dump", None)) and not isinstance(value, type):
        return _dumped(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in fields(value)}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    raise _Refused(_advice(value))


def _dumped(model: Any) -> object:
    """A pydantic model in JSON's types; its own errors quote the input, so they are not repeated."""
    failed = False
    dumped: object = None
    try:
        dumped = model.model_dump(mode="json")
    except Exception:
        failed = True
    if failed or type(dumped) is type(model):
        raise _Refused(f"is a {_type(model)} that model_dump(mode='json') cannot write; mend its serializer")
    return _unwrap(dumped)


def _text(text: str) -> str:
    fault = _text_fault(text)
    if fault:
        raise _Refused(fault)
    return str.__str__(text)


def _text_fault(text: str) -> str | None:
    if "\x00" in text:
        return "contains a NUL character; remove it before enqueueing"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "contains a lone surrogate, which is no valid text; decode the bytes with the right encoding first"
    return None


def _number(number: float | Decimal) -> object:
    if isinstance(number, Decimal):
        if not number.is_finite():
            raise _Refused("is not a finite number; JSON has no NaN and no infinity")
        return str(number)
    if isinstance(number, int):
        if not _LOWEST <= number <= _HIGHEST:
            raise _Refused("is an integer of more than 64 bits; send it as text")
        return int(number)
    if not math.isfinite(number):
        raise _Refused("is not a finite number; JSON has no NaN and no infinity")
    return float(number)


def _advice(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return "is bytes; send base64 text, or store them and enqueue their id"
    if isinstance(value, set | frozenset):
        return "is a set, which has no order; send a sorted list"
    return f"is a {_type(value)}; send JSON types, a dataclass or a pydantic model"


def _type(value: object) -> str:
    return type(value).__name__[:60]


def _declared(value: object) -> frozenset[str]:
    """Field names that are code: those of a dataclass or a pydantic model."""
    if isinstance(value, type):
        return frozenset()
    if is_dataclass(value):
        return frozenset(field.name for field in fields(value))
    declared = getattr(type(value), "model_fields", None)
    return frozenset(str(name) for name in declared) if isinstance(declared, Mapping) else frozenset()


def _spell(steps: tuple[str, ...]) -> str:
    shown = steps if len(steps) <= _SHORT_PATH else (*steps[:_SHORT_PATH], "…")
    return "$" + "".join(shown)
