"""What is kept of an answer about an item. A model is not believed: everything is cleaned, counted and cut."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError

from penstock.apps.vault.models import (
    LONGEST_NAME,
    LONGEST_SUMMARY,
    LONGEST_TAG,
    LONGEST_TITLE,
    MOST_ENTITIES,
    MOST_TAGS,
    Enrichment,
    Entity,
    EntityKind,
)
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.contract.texts import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UNKNOWN_LANGUAGE: Final = "und"
_LANGUAGE: Final = re.compile(r"([a-z]{2,3})(?:[-_].*)?", re.DOTALL)
_ENTITY: Final[dict[str, Any]] = {
    "name": {"type": "string"},
    "kind": {"type": "string", "enum": [str(kind) for kind in EntityKind]},
}
_MEMBERS: Final[dict[str, Any]] = {
    "title": {"type": "string"},
    "summary": {"type": "string"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "language": {"type": "string"},
    "entities": {
        "type": "array",
        "items": {
            "type": "object", "properties": _ENTITY, "required": list(_ENTITY), "additionalProperties": False,
        },
    },
}  # fmt: skip
SCHEMA: Final[dict[str, Any]] = {  # in the words that every provider's strict mode takes: no lengths, no bounds
    "type": "object",
    "properties": _MEMBERS,
    "required": list(_MEMBERS),
    "additionalProperties": False,
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Name(_Strict):
    name: StrictStr
    kind: EntityKind


class _Answer(_Strict):
    """An answer of the right shape, not believed yet."""

    title: StrictStr
    summary: StrictStr
    tags: tuple[StrictStr, ...]
    language: StrictStr
    entities: tuple[_Name, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What is stored of an answer."""

    title: str = field(repr=False)
    enrichment: Enrichment = field(repr=False)


def found_in(data: Any) -> Found:
    """What is kept of *data*; another shape, or none with a title, is `Failed`, and nothing of it is in the error."""
    answer = _answer(data)
    title = "" if answer is None else _line(answer.title, LONGEST_TITLE)
    if answer is None or not title:
        raise Failed(FailureClass.SCHEMA_INVALID, "the answer about an item has no title, or another shape")
    return Found(
        title,
        Enrichment(
            summary=_line(answer.summary, LONGEST_SUMMARY),
            tags=tuple(_first(_tags(answer.tags), MOST_TAGS)),
            language=_language(answer.language),
            entities=tuple(_first(_entities(answer.entities), MOST_ENTITIES)),
        ),
    )


def _answer(data: Any) -> _Answer | None:
    """None instead of an error, which would have the answer in its context."""
    try:
        return _Answer.model_validate(data)
    except ValidationError:
        return None


def _line(text: str, limit: int) -> str:
    """*text* as one line that every table and terminal takes."""
    return clean_text(" ".join(text[: limit * 4].split()), limit)


def _tags(tags: Iterable[str]) -> Iterator[str]:
    return (_line(tag.casefold().lstrip("# "), LONGEST_TAG) for tag in tags)


def _entities(names: Iterable[_Name]) -> Iterator[Entity]:
    named = ((_line(entity.name, LONGEST_NAME), entity.kind) for entity in names)
    return (Entity(name=name, kind=kind) for name, kind in named if name)


def _first(found: Iterable[Any], most: int) -> list[Any]:
    """Up to *most* different ones, in their order; an empty one is none."""
    return list(dict.fromkeys(filter(None, found)))[:most]


def _language(code: str) -> str:
    """The code without its region; what is no code counts as unknown."""
    match = _LANGUAGE.fullmatch(code.strip().lower())
    return match[1] if match else UNKNOWN_LANGUAGE
