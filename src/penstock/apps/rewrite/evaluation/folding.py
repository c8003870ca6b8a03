"""A text as the lexicon reads it: the same word however it is dressed up.

Case, width and invisible characters never matter. Marks on letters do not
matter for a term written without them, and do for one written with them:
Spanish has a word for a cone that lacks nothing but the tilde.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

from penstock.apps.rewrite.evaluation.scripts import UNSPACED, script

STOP: Final = "."
_STOPS: Final = frozenset(".!?;:\n\r\u2026\u3002\u0964")
LEAST_DISGUISED: Final = 4  # letters; a shorter word could be found in any row of signs
_MARKS: Final = re.compile("[\u0300-\u036f]")
_ADDRESSES: Final = re.compile(r"https?://\S+|www\.\S+|\S+@\S+\.\S+")
_LONG_RUN: Final = re.compile(r"(.)\1{2,}")
_LEET: Final = tuple(str.maketrans("013457@$!|", letters) for letters in ("oieastasii", "oleastasll"))
_LEET_WORD: Final = re.compile(r"[\w@$!|]+")
_MASKED: Final = re.compile(r"(?<![*\w])[^\W\d_]+(?:\*+[^\W\d_]+)+|(?<![*\w])[^\W\d_]{2,}\*{2,}(?![*\w])")
# Letters of other scripts that look like Latin ones, for words that mix the two.
_LOOKALIKES: Final = str.maketrans("аеорсухіјѕԁαορν", "aeopcyxijsdaopv")  # noqa: RUF001


@lru_cache(maxsize=1024)
def _class(character: str) -> str:
    """W for what words are made of, J for scripts without spaces, S for a sentence's end, '' for other gaps."""
    if script(character) in UNSPACED:
        return "J"
    if character in _STOPS:
        return "S"
    # marks too: the vowels of Hindi are marks
    return "W" if character.isalnum() or unicodedata.category(character).startswith("M") else ""


def folded(text: str) -> str:
    """*text* without case, width and invisible characters."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(character for character in plain if unicodedata.category(character) != "Cf")


def bare(text: str) -> str:
    """*text* without the marks on Latin, Greek and Cyrillic letters; vowels of other scripts stay."""
    return unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", text)))


def words(text: str) -> list[str]:
    """The words of a folded text; a stretch of a script without spaces is one of them.

    The end of a sentence is a word too, so that no phrase reaches across it.
    """
    return [STOP if kind == "S" else "".join(group) for kind, group in groupby(text, _class) if kind]


@dataclass(frozen=True, slots=True)
class Reading:
    """One text in every form that terms are looked for in."""

    marked: tuple[str, ...]  # words as they stand
    bare: tuple[str, ...]  # the same words without marks, place by place
    disguised: frozenset[str]  # words behind digits, drawn-out and look-alike letters
    spelled: tuple[str, ...]  # rows of single letters, put together
    masked: tuple[str, ...]  # words with stars for some of their letters
    joined: str  # the whole without spaces


def read(text: str) -> Reading:
    """*text*, folded in every way."""
    whole = folded(text)
    marked = tuple(words(whole))
    plain = tuple(bare(word) for word in marked)
    without = bare(_ADDRESSES.sub(" ", whole))
    return Reading(
        marked=marked,
        bare=plain,
        disguised=frozenset(_undisguised(without, plain)),
        spelled=tuple(_spelled(plain)),
        masked=tuple(match.group() for match in _MASKED.finditer(without)),
        joined="".join(whole.split()),
    )


def _spelled(plain: tuple[str, ...]) -> list[str]:
    letters = [word for word in plain if word != STOP]
    return ["".join(run) for single, run in groupby(letters, lambda word: len(word) == 1) if single]


def _undisguised(whole: str, plain: tuple[str, ...]) -> list[str]:
    found = [form for word in _LEET_WORD.findall(whole) for form in _unleet(word)]
    found += [form for word in (*plain, *found) for form in _shortened(word)]
    found += [word.translate(_LOOKALIKES) for word in plain if len({script(letter) for letter in word} - {""}) > 1]
    return [word for word in found if len(word) >= LEAST_DISGUISED]


def _unleet(word: str) -> list[str]:
    """The letters behind the digits and signs of *word*, if at least half of it is letters and not all."""
    core = word.strip("!|")
    letters = sum(character.isalpha() for character in core)
    return [] if letters == len(core) or letters * 2 < len(core) else [core.translate(table) for table in _LEET]


def _shortened(word: str) -> list[str]:
    """*word* with drawn-out letters made one, and made two."""
    if not _LONG_RUN.search(word):
        return []
    return [_LONG_RUN.sub(r"\1", word), _LONG_RUN.sub(r"\1\1", word)]
