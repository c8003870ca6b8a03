"""What a model is told about an item, by version."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Final, Self

from pydantic import model_validator

from penstock.apps.prompt_files import Prompt, PromptFile, Text, read_version, versions_in
from penstock.apps.vault.models import Enrichment, Entity, EntityKind

PACKAGE: Final = "penstock.apps.vault.prompts"
MEMBERS: Final = ("title", *Enrichment.model_fields, *Entity.model_fields)


class _File(PromptFile):
    """What a data file must hold: a meaning for each kind of entity, and the name of each member of an answer."""

    kinds: dict[EntityKind, Text]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if set(self.kinds) != set(EntityKind):
            raise ValueError("gives a meaning for each kind of entity")
        self.refuse_gaps(MEMBERS)
        return self


def parsed(text: str) -> Prompt:
    """The prompt that a data file describes; a file that is wrong anywhere raises `ValueError`.

    Its instructions are the same for every item: nothing that somebody saved
    stands in them.
    """
    read = _File.model_validate(tomllib.loads(text))
    kinds = "\n".join(f"{kind}: {read.kinds[kind]}." for kind in EntityKind)
    said = read.instructions
    told = "\n\n".join((said.opening, said.data, f"Kinds:\n{kinds}", said.answer))
    return Prompt(read.version, told, read.delimiter.fence)


@cache
def versions() -> tuple[str, ...]:
    """Every version there is."""
    return versions_in(PACKAGE)


@cache
def prompt(version: str) -> Prompt:
    """The prompt of *version*; see `read_version`."""
    return read_version(PACKAGE, version, parsed)
