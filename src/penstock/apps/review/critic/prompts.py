"""The versions of the critic's prompt: one data file each, checked when it is read.

A version that was used is never edited: a retry must ask the same question.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

from penstock.apps.review.models import Finding, Severity
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.contract.untrusted import Fence

Text = Annotated[str, StringConstraints(min_length=1, max_length=4000, strip_whitespace=True)]
Token = Annotated[str, StringConstraints(min_length=2, max_length=40, pattern=r"^\S+$")]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One version: what every question says, and how a changelist is set apart in it."""

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
    """What a data file must hold: a meaning for each severity, and the name of each member of a finding."""

    version: Annotated[str, StringConstraints(pattern=r"^v[0-9]{1,4}$")]
    instructions: _Instructions
    severities: dict[Severity, Text]
    delimiter: _Delimiter

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if set(self.severities) != set(Severity):
            raise ValueError("gives a meaning for each severity")
        if any(f'"{member}"' not in self.instructions.answer for member in ("findings", *Finding.model_fields)):
            raise ValueError("the answer names each member of the answer's schema")
        if any(f"{mark}{self.delimiter.name}" not in self.instructions.data for mark in ("<<<", ">>>")):
            raise ValueError("the data names both lines of the fence")
        return self


def parsed(text: str) -> Prompt:
    """The prompt that a data file describes; a file that is wrong anywhere raises `ValueError`.

    Its instructions are the same for every changelist: providers keep a common
    beginning in their caches, and nothing that somebody wrote stands in them.
    """
    read = _File.model_validate(tomllib.loads(text))
    meanings = "\n".join(f"{severity}: {read.severities[severity]}." for severity in Severity)
    said = read.instructions
    fence = Fence(read.delimiter.name, read.delimiter.quote, read.delimiter.tokens)
    return Prompt(read.version, "\n\n".join((said.opening, said.data, f"Severities:\n{meanings}", said.answer)), fence)


@cache
def versions() -> tuple[str, ...]:
    """Every version there is."""
    here = files("penstock.apps.review.critic").iterdir()
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in here if entry.name.endswith(".toml")))


@cache
def prompt(version: str) -> Prompt:
    """The prompt of *version*. One that does not exist is `CONFIG_INVALID`: no attempt could mend it (R-13)."""
    if version not in versions():
        raise Failed(FailureClass.CONFIG_INVALID, f"there is no such prompt version; choose {', '.join(versions())}")
    found = _read(version)
    if found is None or found.version != version:
        raise Failed(FailureClass.CONFIG_INVALID, f"the data file of prompt version {version} is damaged; reinstall")
    return found


def _read(version: str) -> Prompt | None:
    try:
        return parsed((files("penstock.apps.review.critic") / f"{version}.toml").read_text("utf-8"))
    except ValueError:
        return None
