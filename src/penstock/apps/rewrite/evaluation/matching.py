"""Terms looked for in a reading: words and phrases at word boundaries, pieces where a script has no spaces.

A disguise is looked through for terms of four letters or more. A katakana
piece is no part of a longer katakana word: a subscription is no insult.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.apps.rewrite.evaluation.folding import LEAST_DISGUISED, STOP, folded, words
from penstock.apps.rewrite.evaluation.scripts import UNSPACED, script

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.apps.rewrite.evaluation.folding import Reading

_KATAKANA: Final = "ァ-ッツ-ヺ"  # without the mark that draws a vowel out: a drawn-out insult is one
_NOTHING: Final = "\0"


@dataclass(frozen=True, slots=True)
class Terms:
    """A set of terms, sorted by how each is looked for."""

    phrases: frozenset[tuple[str, ...]]  # one word or several
    pieces: frozenset[str]
    longest: int

    @classmethod
    def of(cls, terms: Iterable[str]) -> Terms:
        """*terms* as people write them."""
        plain = [folded(term) for term in terms]
        pieces = frozenset("".join(term.split()) for term in plain if _is_piece(term))
        phrases = frozenset(phrase for term in plain if not _is_piece(term) for phrase in _phrases(term))
        return cls(phrases, pieces - {""}, max((len(phrase) for phrase in phrases), default=0))

    def found_in(self, reading: Reading, allowed: Terms | None = None) -> bool:
        """Whether any of the terms is in the text, other than as part of an *allowed* one."""
        excused = allowed or NO_TERMS
        return self._phrase_in(reading, excused) or self._piece_in(reading, excused) or self._disguised_in(reading)

    def _phrase_in(self, reading: Reading, allowed: Terms) -> bool:
        excused = {place for span in allowed.spans(reading) for place in span}
        return any(not excused.issuperset(span) for span in self.spans(reading))

    def spans(self, reading: Reading) -> Iterator[range]:
        """The places of every phrase: a term without marks in words without them, one with marks as it stands."""
        for tokens in (reading.bare, reading.marked):
            for start in range(len(tokens)):
                for length in range(1, self.longest + 1):
                    if tokens[start : start + length] in self.phrases:
                        yield range(start, start + length)

    def _piece_in(self, reading: Reading, allowed: Terms) -> bool:
        text = reading.joined
        for piece in sorted(allowed.pieces, key=len, reverse=True):
            text = text.replace(piece, _NOTHING)
        return any(piece in text and _stands_alone(piece, text) for piece in self.pieces)

    def _disguised_in(self, reading: Reading) -> bool:
        long = {phrase[0] for phrase in self.phrases if len(phrase) == 1 and len(phrase[0]) >= LEAST_DISGUISED}
        if not long.isdisjoint(reading.disguised):
            return True
        if any(word in row for row in reading.spelled if len(row) >= LEAST_DISGUISED for word in long):
            return True
        return any(re.fullmatch(word.replace("*", "[^\\W\\d_]"), term) for word in reading.masked for term in long)


def _phrases(term: str) -> set[tuple[str, ...]]:
    """The words of *term*, with a full stop inside of it and without: Dr. Who."""
    found = words(term)
    while found and found[-1] == STOP:
        found.pop()
    return {tuple(found), tuple(word for word in found if word != STOP)}


def _is_piece(term: str) -> bool:
    """Whether *term* has no boundaries to look for: no spaces in its script, or no letters at all."""
    return not set(words(term)) - {STOP} or any(script(character) in UNSPACED for character in term)


def _stands_alone(piece: str, text: str) -> bool:
    if not re.fullmatch(f"[{_KATAKANA}ー]+", piece):
        return True
    return re.search(f"(?<![{_KATAKANA}ー]){re.escape(piece)}(?![{_KATAKANA}])", text) is not None


NO_TERMS: Final = Terms(frozenset(), frozenset(), 0)
