"""From what callers pass to JSON's own types, with the place of whatever cannot go.

This is the careful path of `payloads.encode`: it runs when a payload holds
other types than JSON's, or a fault. It walks with a list of its own, so that
100,000 levels cost a refusal and not the interpreter's stack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from penstock.contract import models

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
    """Carries a reason out of a conversion, and the steps down to its place; never leaves this module."""

    def __init__(self, reason: str, steps: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.steps = steps


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
        try:
            waiting.extend(_place(node, max_depth, max_nodes))
        except _Refused as refused:
            return Refusal(_spell((*node.place, *refused.steps)), str(refused))
    return Converted(root[0])


def open_up(value: object) -> object:
    """The members of a dataclass or a pydantic model, one level down; anything else as it is."""
    if isinstance(value, type):
        return value
    try:
        if models.is_model(value):
            return models.dump(value)
        return _fields(value) if is_dataclass(value) else value
    except Exception:  # the careful path says what is wrong
        return value


def _place(node: _Node, max_depth: int, max_nodes: int) -> list[_Node]:
    """Put the node's JSON form into its container; return what is below it."""
    value = _unwrap(node.value)
    if not isinstance(value, dict | list):
        node.into[node.key] = value
        return []
    if node.depth > max_depth:
        raise _Refused(f"is nested deeper than {max_depth} levels; flatten it, or enqueue the id of a row")
    if len(value) > max_nodes:
        raise _Refused(f"has more than {max_nodes} values; store the data in a table of yours, enqueue its id")
    return list(_children(node, value))[::-1]


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
        if name in members:
            raise _Refused(f"has a key (key {position}) that is the same text as another one before it; rename one")
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
    if models.is_model(value):
        return _dumped(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    raise _Refused(_advice(value))


def _fields(value: Any) -> dict[str, object]:
    """The fields of a dataclass under the keys that they are read by: one of pydantic may have aliases."""
    found: dict[str, object] = {}
    for member in models.shape(type(value)).members:
        if member.read is None:
            raise _Refused("is read from inside another value; give it one plain alias", (f".{member.name}",))
        found[member.read] = getattr(value, member.name, None)
    return found


def _dumped(model: Any) -> object:
    """A pydantic model in JSON's types; its own errors quote the input, so they are not repeated."""
    refused: _Refused | None = None
    dumped: object = None
    try:
        dumped = models.dump(model)
    except models.Lost as lost:
        refused = _Refused(str(lost), lost.steps)
    except Exception:
        refused = _Refused(f"is a {_type(model)} that model_dump(mode='json') cannot write; mend its serializer")
    if refused is not None:
        raise refused
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
    """Names and aliases that are code: those of the fields of a dataclass or a pydantic model."""
    found = () if isinstance(value, type) else models.shape(type(value)).members
    return frozenset(name for member in found for name in (member.name, member.read) if name is not None)


def _spell(steps: tuple[str, ...]) -> str:
    shown = steps if len(steps) <= _SHORT_PATH else (*steps[:_SHORT_PATH], "…")
    return "$" + "".join(shown)
