"""The versions of the prompt, checked when they are read."""

from __future__ import annotations

import tomllib
from functools import cache
from string import Template
from typing import Annotated, Any, Final, Self

from pydantic import Field, model_validator

from penstock.apps.prompt_files import Instructions, PromptFile, Text, read_version, versions_in
from penstock.apps.rewrite.models import KnownLocale, Label, Lane, RewriteAnswer, Strength
from penstock.apps.rewrite.prompts.prompt import Prompt

PACKAGE: Final = "penstock.apps.rewrite.prompts"
_NAMES: Final = frozenset({"source", "target", "code"})


class _Instructions(Instructions):
    tone: Text
    blocked: Text


class _File(PromptFile):
    """What a data file must hold: every lane, every strength, a default tone, and the names that its texts use."""

    instructions: _Instructions
    lanes: dict[Lane, Text]
    strengths: dict[Strength, Text]
    tones: dict[Label, Text]
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
    rest: dict[str, Any] = {name: getattr(read, name) for name in ("lanes", "strengths", "tones", "languages")}
    return Prompt(version=read.version, fence=read.delimiter.fence, **words, **rest)


@cache
def versions() -> tuple[str, ...]:
    """Every version there is."""
    return versions_in(PACKAGE)


@cache
def prompt(version: str) -> Prompt:
    """The prompt of *version*; see `read_version`."""
    return read_version(PACKAGE, version, parsed)
