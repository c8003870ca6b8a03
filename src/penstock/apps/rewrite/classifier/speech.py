"""Small words that betray a language, also one that there is no model for.

They are what keeps a comparison of models honest: the models must name one of
the languages they know, and will call Swedish German. A sentence in a language
has some of that language's small words in it, and few of another's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.apps.rewrite.classifier import rulebook
from penstock.apps.rewrite.classifier.text import folded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Speech:
    """What is known of every language's small words and letters."""

    common: Mapping[str, frozenset[str]]
    letters: Mapping[str, frozenset[str]]  # beyond a to z
    romanised: Mapping[str, frozenset[str]]  # of languages that are also typed in Latin letters


@dataclass(frozen=True, slots=True)
class Evidence:
    """How many of the words speak for a language, and how many for the strongest other one."""

    own: int | None  # None: nothing is known of this language
    rival: int
    strange: int  # words with letters that the language does not have


@lru_cache(maxsize=1)
def speech() -> Speech:
    """The data file, read once."""
    content = rulebook.data("speech.json")

    def part(name: str) -> dict[str, frozenset[str]]:
        return {code: frozenset(_plain(word) for word in said[name]) for code, said in content.items() if name in said}

    letters = {code: frozenset(said["letters"]) for code, said in content.items() if "letters" in said}
    return Speech(part("common"), letters, part("romanised"))


def evidence(words: Sequence[str], language: str) -> Evidence:
    """What the small words in *words* say about *language*. A word counts for a rival only if *language* has it not."""
    known = speech()
    forms = [_forms(word) for word in words]
    own = known.common.get(language)
    others = [form for form in forms if not own or not form & own]
    rival = max(sum(1 for form in others if form & common) for code, common in known.common.items() if code != language)
    return Evidence(
        None if own is None else len(forms) - len(others),
        rival,
        _strange(words, known.letters.get(language)),
    )


def romanised(words: Sequence[str], language: str) -> tuple[int, float]:
    """How many different words are of *language* in Latin letters, and what part of the text they make."""
    known = speech().romanised.get(language, frozenset())
    hits = [word.lower() for word in words if _forms(word) & known]
    return len(set(hits)), len(hits) / len(words) if words else 0.0


def _strange(words: Sequence[str], letters: frozenset[str] | None) -> int:
    if letters is None:
        return 0
    return sum(1 for word in words if any(c.isalpha() and not c.isascii() and c not in letters for c in word.lower()))


@lru_cache(maxsize=4096)
def _plain(word: str) -> str:
    return folded(word.replace("'", ""))


def _forms(word: str) -> frozenset[str]:
    """The word as one, and in the parts that an apostrophe makes of it: don't, l'affitto."""
    return frozenset({_plain(word), *(folded(part) for part in word.split("'") if len(part) > 1)})
