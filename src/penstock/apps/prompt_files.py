"""Prompts of applications as data files: one for each version, checked when it is read.

A version that was used is never edited: jobs in flight name it, and a retry
must ask the same question (A-65). Changes go into a new file. What a file says
beside the parts named here is each application's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints

from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from penstock.contract.untrusted import Fence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Text = Annotated[str, StringConstraints(min_length=1, max_length=4000, strip_whitespace=True)]
Token = Annotated[str, StringConstraints(min_length=2, max_length=40, pattern=r"^\S+$")]


class Part(BaseModel):
    """A table of a data file: nothing beside what is declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Instructions(Part):
    """What every question says, whatever it is about."""

    opening: Text
    data: Text
    answer: Text


class Delimiter(Part):
    """How untrusted text is set apart."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3,20}$")]
    quote: Annotated[str, StringConstraints(pattern=r"^[|:] $")]  # no fence line begins so
    tokens: tuple[Token, ...]

    @property
    def fence(self) -> Fence:
        """The fence that it describes."""
        return Fence(self.name, self.quote, self.tokens)


class PromptFile(Part):
    """What the file of every version holds."""

    version: Annotated[str, StringConstraints(pattern=r"^v[0-9]{1,4}$")]
    instructions: Instructions
    delimiter: Delimiter

    def refuse_gaps(self, members: Iterable[str]) -> None:
        """`ValueError` unless the answer names each of *members*, and the data both lines of the fence."""
        if any(f'"{member}"' not in self.instructions.answer for member in members):
            raise ValueError("the answer names each member of the answer's schema")
        if any(f"{mark}{self.delimiter.name}" not in self.instructions.data for mark in ("<<<", ">>>")):
            raise ValueError("the data names both lines of the fence")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One version: what every question says, and how what it is about is set apart in it."""

    version: str
    instructions: str = field(repr=False)
    fence: Fence = field(repr=False)


class Versioned(Protocol):
    """A prompt that knows its version."""

    @property
    def version(self) -> str:
        """Such as v1."""


P = TypeVar("P", bound=Versioned)


def versions_in(package: str) -> tuple[str, ...]:
    """Every version whose file *package* holds."""
    names = (entry.name for entry in files(package).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def read_version(package: str, version: str, parse: Callable[[str], P]) -> P:
    """The prompt of *version*. One that is missing or damaged is `CONFIG_INVALID`: no attempt could mend it (R-13)."""
    known = versions_in(package)
    if version not in known:
        raise Failed(FailureClass.CONFIG_INVALID, f"there is no such prompt version; choose {', '.join(known)}")
    found: P | None = None
    try:
        found = parse((files(package) / f"{version}.toml").read_text("utf-8"))
    except ValueError:  # pydantic's is one; it would quote the file
        found = None
    if found is None or found.version != version:
        raise Failed(FailureClass.CONFIG_INVALID, f"the data file of prompt version {version} is damaged; reinstall")
    return found
