"""The language of a short text, and how sure one may be of it.

Scripts decide where they can. Everything else is a comparison of n-gram
models, whose first place says little by itself: what counts is how far the
second is behind, how much text there was, and whether the small words of the
language are there while those of others are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.apps.rewrite.classifier import languages as tongues
from penstock.apps.rewrite.classifier import scripts, speech
from penstock.apps.rewrite.classifier.port import Detection
from penstock.apps.rewrite.classifier.text import words
from penstock.apps.rewrite.locales import normalized
from penstock.apps.rewrite.models import Confidence

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

LONGEST: Final = 2000  # characters that are looked at; more of them tell nothing more
NOTHING: Final = Detection(None, Confidence.LOW)

FEWEST_WORDS: Final = 3  # two words are a name, a loan word, a slip
FEWEST_LETTERS: Final = 9
SCRIPT_RULES: Final = 0.5  # of the words; below it the script is a guest in the text
SCRIPT_ALONE: Final = 0.8
SCRIPT_WORDS: Final = 2
LATIN_SHARES: Final = {2: 0.5, 3: 0.4}  # different words of a language in Latin letters, and their part of the text
STRANGE: Final = 0.2  # the part of the words that may have letters of another language: names
FAIR: Final = (0.45, 0.2)  # the value of the first place, and its lead over the second
CLEAR: Final = (0.8, 0.6)
ALONE: Final = 0.75  # the value that needs no small words beside it
CERTAIN: Final = 0.95
PROVEN: Final = 2  # small words more than any rival has
MIXED: Final = 3  # the rival's words, times this, are still fewer than the language's own


def detected(text: str, languages: Sequence[str] | None = None) -> Detection:
    """The language of *text* among *languages*, and the confidence in it."""
    configured = tongues.chosen(languages)
    found = words(text[:LONGEST])
    by_script = scripts.shares(found, configured)
    if by_script.language and by_script.share >= SCRIPT_RULES:
        return Detection(by_script.language, _of_script(by_script))
    return _in_latin(found, configured) or _by_models(found, configured)


def _of_script(shares: scripts.Shares) -> Confidence:
    """A script leaves no doubt about its words, only about how many there are and what stands beside them."""
    if shares.doubtful or shares.owned < SCRIPT_WORDS:
        return Confidence.LOW
    return Confidence.HIGH if shares.share >= SCRIPT_ALONE and shares.owned >= FEWEST_WORDS else Confidence.MEDIUM


def _in_latin(found: Sequence[str], configured: Collection[str]) -> Detection | None:
    """A language that is typed in Latin letters although it has its own; no model knows it in this form."""
    for language in sorted(speech.speech().romanised.keys() & set(configured)):
        count, share = speech.romanised(found, language)
        if any(count >= most and share >= part for most, part in LATIN_SHARES.items()):
            return Detection(language, Confidence.MEDIUM if len(found) >= FEWEST_WORDS else Confidence.LOW)
    return None


@dataclass(frozen=True, slots=True)
class _Guess:
    language: str
    value: float
    margin: float

    def reaches(self, bar: tuple[float, float]) -> bool:
        """Whether value and lead are both large enough."""
        return self.value >= bar[0] and self.margin >= bar[1]


def _by_models(found: Sequence[str], configured: Collection[str]) -> Detection:
    guess = _guess(found, configured)
    if guess is None:
        return NOTHING
    return Detection(guess.language, _trust(guess, found))


def _guess(found: Sequence[str], configured: Collection[str]) -> _Guess | None:
    """The first place; None where no model fits the script, or a language stands there that nobody configured."""
    detector = tongues.detector(configured) if found else None
    if detector is None:
        return None
    first, second, *_ = detector.compute_language_confidence_values(" ".join(found))
    language = normalized(first.language.iso_code_639_1.name)
    if language is None or language not in configured or first.value <= second.value:
        return None
    return _Guess(language, first.value, first.value - second.value)


def _trust(guess: _Guess, found: Sequence[str]) -> Confidence:
    """High for a clear lead with small words to prove it, medium for one of the two, low in every doubt.

    Small words of another language are a mixture, or a language that has no
    model here; the more of them, the less is claimed.
    """
    said = speech.evidence(found, guess.language)
    own = said.own or 0
    if _too_little(found) or said.strange > len(found) * STRANGE:
        return Confidence.LOW
    if said.rival >= max(own, 1):
        return Confidence.MEDIUM if guess.value >= CERTAIN and said.rival <= max(own, 1) else Confidence.LOW
    if guess.reaches(CLEAR) and own and said.rival * MIXED <= own:
        return Confidence.HIGH
    if guess.reaches(FAIR) and (own or guess.value >= ALONE):
        return Confidence.MEDIUM
    return Confidence.MEDIUM if own >= said.rival + PROVEN else Confidence.LOW


def _too_little(found: Sequence[str]) -> bool:
    return len(found) < FEWEST_WORDS or sum(map(len, found)) < FEWEST_LETTERS
