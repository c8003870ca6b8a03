"""What a model is told about an item: one data file for each version, checked when it is read.

A version that was used is never edited: a retry must ask the same question.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

from penstock.apps.vault.models import Enrichment, Entity, EntityKind
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.contract.untrusted import Fence

Text = Annotated[str, StringConstraints(min_length=1, max_length=4000, strip_whitespace=True)]
Token = Annotated[str, StringConstraints(min_length=2, max_length=40, pattern=r"^\S+$")]
MEMBERS = ("title", *Enrichment.model_fields, *Entity.model_fields)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One version: what every question says, and how an item is set apart in it."""

    version: str
    instructions: str = field(repr=False)
    fence: Fence = field(repr=False)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Instructions(_Part):
    opening: Text
    data: Text
    answer: Text


class _Delimiter(_Part):
    name: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3,20}$")]
    quote: Annotated[str, StringConstraints(pattern=r"^[|:] $")]  # no fence line begins so
    tokens: tuple[Token, ...]


class _File(_Part):
    """What a data file must hold: a meaning for each kind of entity, and the name of each member of an answer."""

    version: Annotated[str, StringConstraints(pattern=r"^v[0-9]{1,4}$")]
    instructions: _Instructions
    kinds: dict[EntityKind, Text]
    delimiter: _Delimiter

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if set(self.kinds) != set(EntityKind):
            raise ValueError("gives a meaning for each kind of entity")
        if any(f'"{member}"' not in self.instructions.answer for member in MEMBERS):
            raise ValueError("the answer names each member of the answer's schema")
        if any(f"{mark}{self.delimiter.name}" not in self.instructions.data for mark in ("<<<", ">>>")):
            raise ValueError("the data names both lines of the fence")
        return self


def parsed(text: str) -> Prompt:
    """The prompt that a data file describes; a file that is wrong anywhere raises `ValueError`.

    Its instructions are the same for every item: nothing that somebody saved
    stands in them.
    """
    read = _File.model_validate(tomllib.loads(text))
    kinds = "\n".join(f"{kind}: {read.kinds[kind]}." for kind in EntityKind)
    said = read.instructions
    fence = Fence(read.delimiter.name, read.delimiter.quote, read.delimiter.tokens)
    return Prompt(read.version, "\n\n".join((said.opening, said.data, f"Kinds:\n{kinds}", said.answer)), fence)


@cache
def versions() -> tuple[str, ...]:
    """Every version there is."""
    here = files("penstock.apps.vault.prompts").iterdir()
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in here if entry.name.endswith(".toml")))


@cache
def prompt(version: str) -> Prompt:
    """The prompt of *version*. One that is not there, or damaged, is `CONFIG_INVALID`: no attempt could mend it."""
    if version not in versions():
        raise Failed(FailureClass.CONFIG_INVALID, f"there is no such prompt version; choose {', '.join(versions())}")
    return parsed((files("penstock.apps.vault.prompts") / f"{version}.toml").read_text("utf-8"))
