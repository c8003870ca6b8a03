"""Pydantic models on their way to JSON: what a handler reads back equals what was given, or it is refused.

`model_dump` alone is not enough. It masks secrets, leaves fields out, lets one
key overwrite another, writes a field under a name that it is not read by, and
gives the members of a set in an order that differs from process to process, so
that equal arguments under one idempotency key would count as others (C-65).
`dump` compares what was written with what was given and mends or refuses that.

A serializer that the model itself declares is left alone: whoever writes one
also says how it is read. Nothing of pydantic is imported here; whoever passes
a model has done so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_SERIALIZERS: Final = frozenset({"PlainSerializer", "WrapSerializer"})
_NOWHERE: Final = object()


class Lost(Exception):
    """Something would not arrive: the steps to its place, and why. Holds nothing of the content."""

    def __init__(self, steps: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.steps = steps


@dataclass(frozen=True, slots=True)
class Member:
    """One field: its name, the key that it is written under, and the one that it is read by (None: there is none)."""

    name: str
    written: str
    read: str | None
    declared: Any
    custom: bool  # written by a serializer of the model's own


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a class; `custom` when a serializer of its own writes it as a whole."""

    members: tuple[Member, ...]
    custom: bool = False


@dataclass(slots=True)
class _Pair:
    """A value, and what was written of it."""

    value: Any
    written: Any
    steps: tuple[str, ...]


_SHAPES: Final[WeakKeyDictionary[type, Shape]] = WeakKeyDictionary()


def is_model(value: object) -> bool:
    """Whether this is an instance of a pydantic model."""
    return callable(getattr(value, "model_dump", None)) and not isinstance(value, type)


def dump(model: Any) -> object:
    """*model* in JSON's types, to be read back by its own class; raises `Lost`, or whatever a serializer raises."""
    written = model.model_dump(mode="json", by_alias=True, warnings=False)  # its warnings would quote the content
    if type(written) is type(model):
        raise TypeError
    unordered: list[list[Any]] = []
    waiting = [_Pair(model, written, ())]
    while waiting:
        pair = waiting.pop()
        waiting.extend(_below(pair))
        if isinstance(pair.value, AbstractSet) and isinstance(pair.written, list):
            unordered.append(pair.written)
    for members in reversed(unordered):  # the innermost first: the order of a set goes by what its members look like
        members.sort(key=_order)
    return written


def shape(kind: type) -> Shape:
    """The fields of a model or a dataclass; any other class has none."""
    found = _SHAPES.get(kind)
    if found is None:
        found = _SHAPES[kind] = _shape(kind)
    return found


def _shape(kind: type) -> Shape:
    found = getattr(kind, "__pydantic_fields__", None)
    if isinstance(found, Mapping):
        serializers = getattr(kind, "__pydantic_decorators__", None)
        own = {name for one in getattr(serializers, "field_serializers", {}).values() for name in one.info.fields}
        return Shape(
            tuple(_member(kind, name, declared, own) for name, declared in found.items()),
            custom=bool(getattr(serializers, "model_serializers", None)),
        )
    if is_dataclass(kind):
        return Shape(tuple(Member(field.name, field.name, field.name, None, custom=False) for field in fields(kind)))
    return Shape(())


def _member(kind: type, name: str, declared: Any, own: set[str]) -> Member:
    custom = name in own or "*" in own or any(type(extra).__name__ in _SERIALIZERS for extra in declared.metadata)
    return Member(name, declared.serialization_alias or name, _read_by(kind, name, declared), declared, custom)


def _read_by(kind: type, name: str, declared: Any) -> str | None:
    """The key by which pydantic finds the field; an alias may also be a list of choices, or a path into other data."""
    config = getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", None) or {}
    alias = declared.validation_alias
    if alias is None or config.get("validate_by_alias") is False:
        return name
    for choice in getattr(alias, "choices", [alias]):
        if isinstance(choice, str):
            return choice
    return name if config.get("populate_by_name") or config.get("validate_by_name") else None


def _below(pair: _Pair) -> list[_Pair]:
    """The pairs one level down that can hold more than a scalar."""
    value, written, steps = pair.value, pair.written, pair.steps
    if type(value) is list and isinstance(written, list) and _SCALARS.issuperset(map(type, value)):
        return []
    if is_model(value) or (is_dataclass(value) and not isinstance(value, type)):
        return _of_fields(pair)
    if hasattr(value, "get_secret_value"):
        _refuse_mask(value, written, steps)
    elif isinstance(value, Mapping) and isinstance(written, dict):
        return _of_mapping(value, written, steps)
    elif isinstance(value, Sequence | AbstractSet) and isinstance(written, list) and len(written) == len(value):
        each = enumerate(zip(value, written, strict=True))
        return [_Pair(one, form, (*steps, f"[{n}]")) for n, (one, form) in each if type(one) not in _SCALARS]
    return []


def _of_mapping(value: Mapping[Any, Any], written: dict[str, Any], steps: tuple[str, ...]) -> list[_Pair]:
    if len(written) < len(value):
        raise Lost(steps, "has keys that are the same text in JSON, so that one would overwrite the other; rename one")
    each = enumerate(zip(value.values(), written.values(), strict=False), start=1)
    return [_Pair(one, form, (*steps, f".#{n}")) for n, (one, form) in each if type(one) not in _SCALARS]


def _of_fields(pair: _Pair) -> list[_Pair]:
    kind = type(pair.value)
    known = shape(kind)
    if known.custom:
        return []
    if getattr(kind, "__pydantic_root_model__", False):
        return [_Pair(pair.value.root, pair.written, pair.steps)]
    if not isinstance(pair.written, dict):
        return []
    found = []
    for member in known.members:
        value = getattr(pair.value, member.name, None)
        key = member.read
        if member.written not in pair.written:
            _refuse_left_out(member, value, pair.steps)
            continue
        if key != member.written:
            key = _rename(member, pair.written, pair.steps)
        if not member.custom and type(value) not in _SCALARS:
            found.append(_Pair(value, pair.written[key], (*pair.steps, f".{member.name}")))
    return found


def _rename(member: Member, written: dict[str, Any], steps: tuple[str, ...]) -> str:
    """Have the field under the key that it is read by."""
    if member.read is None or member.read in written:
        reason = f"is written as {member.written!r}, which is not what it is read by; give it one plain alias"
        raise Lost((*steps, f".{member.name}"), reason)
    written[member.read] = written.pop(member.written)
    return member.read


def _refuse_left_out(member: Member, value: object, steps: tuple[str, ...]) -> None:
    default: object = _NOWHERE
    if member.declared is not None:
        try:
            default = member.declared.get_default(call_default_factory=True)
        except Exception:  # a factory of the caller's; one that needs the other fields is not called
            default = _NOWHERE
    if type(value) is not type(default) or value != default:
        reason = "is left out by the model's serializer and holds something else than its default; include it"
        raise Lost((*steps, f".{member.name}"), reason)


def _refuse_mask(secret: Any, written: object, steps: tuple[str, ...]) -> None:
    """A mask of asterisks would arrive, except for a secret that is empty."""
    revealed = secret.get_secret_value()
    if written != (revealed.decode("utf-8", "replace") if isinstance(revealed, bytes) else revealed):
        raise Lost(steps, "is a secret, which is written as asterisks; keep it where the handler finds it by an id")


def _order(member: object) -> str:
    return json.dumps(member, sort_keys=True)
