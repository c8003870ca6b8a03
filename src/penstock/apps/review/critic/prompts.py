"""The versions of the critic's prompt."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Final, Self

from pydantic import model_validator

from penstock.apps.prompt_files import Prompt, PromptFile, Text, read_version, versions_in
from penstock.apps.review.models import Finding, Severity

PACKAGE: Final = "penstock.apps.review.critic"


class _File(PromptFile):
    """What a data file must hold: a meaning for each severity, and the name of each member of a finding."""

    severities: dict[Severity, Text]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if set(self.severities) != set(Severity):
            raise ValueError("gives a meaning for each severity")
        self.refuse_gaps(("findings", *Finding.model_fields))
        return self


def parsed(text: str) -> Prompt:
    """The prompt that a data file describes; a file that is wrong anywhere raises `ValueError`.

    Its instructions are the same for every changelist: providers keep a common
    beginning in their caches, and nothing that somebody wrote stands in them.
    """
    read = _File.model_validate(tomllib.loads(text))
    meanings = "\n".join(f"{severity}: {read.severities[severity]}." for severity in Severity)
    said = read.instructions
    told = "\n\n".join((said.opening, said.data, f"Severities:\n{meanings}", said.answer))
    return Prompt(read.version, told, read.delimiter.fence)


@cache
def versions() -> tuple[str, ...]:
    """Every version there is."""
    return versions_in(PACKAGE)


@cache
def prompt(version: str) -> Prompt:
    """The prompt of *version*; see `read_version`."""
    return read_version(PACKAGE, version, parsed)
