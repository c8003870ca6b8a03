"""The lists, one data file per language, and the version that stands for all of them.

`fallback.toml` is checked for every language and is all there is for a language
without a file of its own: only words that mean the same wherever they turn up.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from penstock.apps.rewrite.evaluation.matching import Terms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

FALLBACK: Final = "fallback"
_SHOWN: Final = 12  # digits of the digest

Term = Annotated[str, StringConstraints(min_length=1, max_length=100, strip_whitespace=True)]


class LexiconFile(BaseModel):
    """What a data file holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: Annotated[str, StringConstraints(pattern=r"^([a-z]{2,3}|fallback)$")]
    version: Annotated[str, StringConstraints(pattern=r"^[0-9]+$")]
    blocked: Annotated[tuple[Term, ...], Field(min_length=1)]  # slurs, profanity, insults; every form that counts
    blame: tuple[Term, ...] = ()  # phrases that accuse
    allowed: tuple[Term, ...] = ()  # what holds one of them and is harmless


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The lists of one language, ready to be looked for."""

    language: str
    version: str
    blocked: Terms
    blame: Terms
    allowed: Terms


def lexicons(target: str) -> tuple[Lexicon, ...]:
    """The lexicons that a text in *target* is checked against: its own, if there is one, and the fallback."""
    return tuple(lexicon(name) for name in dict.fromkeys((target, FALLBACK)) if name in languages())


@cache
def languages() -> tuple[str, ...]:
    """The languages with a file, the fallback among them."""
    return tuple(name for name, _ in _files())


@cache
def lexicon(language: str) -> Lexicon:
    """The lexicon of *language*, from its file."""
    read = parsed(dict(_files())[language].read_text("utf-8"))
    if read.language != language:
        raise ValueError(f"the lexicon file of {language} says that it is of another language")
    return Lexicon(language, read.version, Terms.of(read.blocked), Terms.of(read.blame), Terms.of(read.allowed))


def parsed(text: str) -> LexiconFile:
    """A data file, checked."""
    return LexiconFile.model_validate(tomllib.loads(text))


def version_of(contents: dict[str, str]) -> str:
    """The version of a set of files by name: another word anywhere is another version."""
    digest = hashlib.sha256()
    for name, text in sorted(contents.items()):
        digest.update(f"{name}\0{text}\0".encode())
    return f"lexicon-{digest.hexdigest()[:_SHOWN]}"


def _files() -> Iterator[tuple[str, Traversable]]:
    here = (files("penstock.apps.rewrite.evaluation") / "lexicons").iterdir()
    found = {entry.name.removesuffix(".toml"): entry for entry in here if entry.name.endswith(".toml")}
    yield from sorted(found.items())


LEXICON_VERSION: Final = version_of({name: entry.read_text("utf-8") for name, entry in _files()})
