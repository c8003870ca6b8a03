"""Whether a text is in the language that was asked for (A-31, L-48).

The rule, in its order:

1. *Script.* Where a language has its own letters, at least half of a text's
   letters are among them, and never none: "OK" is no Japanese, at any length.
   Latin letters do for a language that is also written in them (Serbian), not
   for Hindi. Twelve letters of Japanese have kana among them, and no Chinese
   text has more than a tenth of kana.
2. *Detection.* What is found with low confidence, or not at all, proves
   nothing and passes: short texts do. Another language counts from 10 letters
   on with high confidence, from 20 on with medium. For a close relative of the
   target (Spanish and Portuguese, Danish and Norwegian) it takes 40 and 60,
   for detectors mistake one for the other. A target that the detector does not
   know is judged by its script alone.
3. *Parts.* In a text of several sentences, one of 40 letters or more that is
   found with high confidence to be in another language, and no close relative,
   is a translation left beside the rewrite (L-31).

Addresses, mentions and numbers belong to no language and are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from penstock.apps.rewrite.evaluation.scripts import KANA, scripts_of, weights
from penstock.apps.rewrite.evaluation.verdict import Detail
from penstock.apps.rewrite.models import Confidence

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

OWN_SHARE: Final = 0.5
KANA_FROM: Final = 12
KANA_IN_CHINESE: Final = 0.1
PART_FROM: Final = 40
FOREIGN_FROM: Final = {Confidence.HIGH: 10, Confidence.MEDIUM: 20}
CLOSE_FROM: Final = {Confidence.HIGH: 40, Confidence.MEDIUM: 60}

_CLOSE: Final = tuple(
    frozenset(group.split())
    for group in (
        "es pt gl ca",
        "es it ca",
        "nl af",
        "da nb nn no sv",
        "cs sk",
        "bs hr sr sl",
        "id ms",
        "be ru uk",
        "bg mk",
        "hi mr ne",
        "xh zu",
        "et fi",
        "az tr",
    )
)
_CHINESE: Final = frozenset({"zh", "yue"})
_SAME: Final = (frozenset({"nb", "nn", "no"}), frozenset({"fil", "tl"}), _CHINESE)
_NO_LANGUAGE: Final = re.compile(r"https?://\S+|www\.\S+|\S+@\S+|[@#]\w+|\d+")
_PARTS: Final = re.compile(r"[\n\r]+|(?<=[.!?…])\s+|(?<=[。！？।])")  # noqa: RUF001


class Detected(Protocol):
    """What a detector says of a text."""

    @property
    def language(self) -> str | None:
        """A primary language in small letters, or None."""

    @property
    def confidence(self) -> Confidence:
        """How sure it is."""


Detect = Callable[[str], Detected]


def language_details(text: str, target: str, detect: Detect | None) -> Iterator[Detail]:
    """The reason to think that *text* is not in *target*, if there is one; without a detector its script decides."""
    plain = _NO_LANGUAGE.sub(" ", text)
    if contradicts(weights(plain), target):
        yield Detail.LOCALE_SCRIPT
    elif detect is None:
        return
    elif is_foreign(plain, target, detect):
        yield Detail.LOCALE_DETECTED
    elif any(is_foreign_part(part, target, detect) for part in _several(plain)):
        yield Detail.LOCALE_PART


def contradicts(found: Counter[str], target: str) -> bool:
    """Whether the scripts of a text speak against *target* (rule 1); a text without letters says nothing."""
    own, total = scripts_of(target), found.total()
    if not own or not total:
        return False
    mine = sum(found[script] for script in own)
    if not mine or mine < total * OWN_SHARE:
        return True
    kana = sum(found[script] for script in KANA)
    if target == "ja":
        return not kana and found["CJK"] >= 2 * KANA_FROM
    return target in _CHINESE and kana > total * KANA_IN_CHINESE


def is_foreign(text: str, target: str, detect: Detect) -> bool:
    """Whether the whole of *text* is in another language (rule 2)."""
    found = detect(text)
    if found.language is None or found.confidence is Confidence.LOW or _alike(_SAME, found.language, target):
        return False
    needed = CLOSE_FROM if _alike(_CLOSE, found.language, target) else FOREIGN_FROM
    return weights(text).total() >= needed[found.confidence]


def is_foreign_part(part: str, target: str, detect: Detect) -> bool:
    """Whether *part* is long enough to tell, and surely in another language (rule 3)."""
    if weights(part).total() < PART_FROM:
        return False
    found = detect(part)
    if found.language is None or found.confidence is not Confidence.HIGH:
        return False
    return not (_alike(_SAME, found.language, target) or _alike(_CLOSE, found.language, target))


def _several(text: str) -> list[str]:
    parts = [part for part in _PARTS.split(text) if part.strip()]
    return parts if len(parts) > 1 else []


def _alike(groups: Sequence[frozenset[str]], one: str, other: str) -> bool:
    return one == other or any({one, other} <= group for group in groups)
