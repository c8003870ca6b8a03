"""The versions there are: one data file each, checked when it is read.

A version that was used is never edited: jobs in flight name it, and a retry
must ask the same question (A-65). Changes go into a new file.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from string import Template
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from penstock.apps.rewrite.models import KnownLocale, Label, Lane, RewriteAnswer, Strength
from penstock.apps.rewrite.prompts.prompt import Prompt
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.contract.untrusted import Fence

Text = Annotated[str, StringConstraints(min_length=1, max_length=4000, strip_whitespace=True)]
Token = Annotated[str, StringConstraints(min_length=2, max_length=40, pattern=r"^\S+$")]
_NAMES: Final = frozenset({"source", "target", "code"})


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Instructions(_Part):
    opening: Text
    data: Text
    answer: Text
    tone: Text
    blocked: Text


class _Delimiter(_Part):
    name: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3,20}$")]
    quote: Annotated[str, StringConstraints(pattern=r"^[|:] $")]  # no fence line begins so
    tokens: tuple[Token, ...]


class _File(_Part):
    """What a data file must hold: every lane, every strength, a default tone, and the names that its texts use."""

    version: Annotated[str, StringConstraints(pattern=r"^v[0-9]{1,4}$")]
    instructions: _Instructions
    lanes: dict[Lane, Text]
    strengths: dict[Strength, Text]
    tones: dict[Label, Text]
    delimiter: _Delimiter
    languages: Annotated[dict[KnownLocale, Text], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if set(self.lanes) != set(Lane) or set(self.strengths) != set(Strength) or "default" not in self.tones:
            raise ValueError("gives an instruction for each lane and each strength, and a default tone")
        if any(member not in self.instructions.answer for member in RewriteAnswer.model_fields):
            raise ValueError("the answer names each member of the answer's schema")
        return self

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        texts = self.instructions
        _uses(texts.tone, {"tone"}, {"tone"})
        _uses(texts.blocked, {"terms"}, {"terms"})
        _uses(texts.answer, _NAMES, {"target", "code"})
        _uses(self.lanes[Lane.SAME_LANGUAGE], {"target"}, {"target"})
        _uses(self.lanes[Lane.CROSS_LANGUAGE], {"source", "target"}, {"source", "target"})
        for text in (*self.strengths.values(), texts.opening, texts.data, *self.tones.values()):
            _uses(text, set(), set())
        return self


def _uses(text: str, known: set[str] | frozenset[str], needed: set[str]) -> None:
    template = Template(text)
    names = set(template.get_identifiers())
    if not template.is_valid() or not needed <= names <= known:
        wanted = ", ".join(f"${name}" for name in sorted(known)) or "no $name"
        raise ValueError(f"a text of it must use {wanted} and nothing else behind a $")


def parsed(text: str) -> Prompt:
    """The prompt that a data file describes; a file that is wrong anywhere raises `ValueError`."""
    read = _File.model_validate(tomllib.loads(text))
    words = read.instructions.model_dump()
    fence = Fence(read.delimiter.name, read.delimiter.quote, read.delimiter.tokens)
    rest: dict[str, Any] = {name: getattr(read, name) for name in ("lanes", "strengths", "tones", "languages")}
    return Prompt(version=read.version, fence=fence, **words, **rest)


@cache
def versions() -> tuple[str, ...]:
    """Every version there is."""
    here = files("penstock.apps.rewrite.prompts").iterdir()
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in here if entry.name.endswith(".toml")))


@cache
def prompt(version: str) -> Prompt:
    """The prompt of *version*. One that does not exist is `CONFIG_INVALID`: no attempt could mend it (R-13)."""
    if version not in versions():
        raise Failed(FailureClass.CONFIG_INVALID, f"there is no such prompt version; choose {', '.join(versions())}")
    found: Prompt | None = None
    try:
        found = parsed((files("penstock.apps.rewrite.prompts") / f"{version}.toml").read_text("utf-8"))
    except (ValueError, ValidationError):
        found = None
    if found is None or found.version != version:
        raise Failed(FailureClass.CONFIG_INVALID, f"the data file of prompt version {version} is damaged; reinstall")
    return found
