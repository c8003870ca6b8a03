"""Which letters a text is written in, and which a language is written in."""

from __future__ import annotations

import unicodedata
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_LANGUAGES: Final[Mapping[str, str]] = {
    "LATIN": (
        "af az bs ca ceb co cs cy da de en eo es et eu fi fil fr fy ga gd gl ha haw hr ht hu id ig is it jv la lb lg "
        "lt lv mg mi ms mt nb nl nn no ny pl pt ro rw sk sl sm sn so sq sr st su sv sw tk tl tn tr ts uz vi xh yo zu"
    ),
    "CYRILLIC": "az be bg kk ky mk mn ru sr tg tk tt uk uz",
    "ARABIC": "ar az ckb fa ku pa ps sd ug ur",
    "DEVANAGARI": "hi mai mr ne sa",
    "BENGALI": "as bn",
    "CJK": "ja zh yue",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "BOPOMOFO": "zh",
    "HANGUL": "ko",
    "HEBREW": "he yi",
    "GREEK": "el",
    "ARMENIAN": "hy",
    "GEORGIAN": "ka",
    "ETHIOPIC": "am ti",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "KANNADA": "kn",
    "KHMER": "km",
    "LAO": "lo",
    "MALAYALAM": "ml",
    "MYANMAR": "my",
    "ORIYA": "or",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
    "TIBETAN": "bo dz",
}
KANA: Final = frozenset({"HIRAGANA", "KATAKANA"})
UNSPACED: Final = frozenset({"CJK", "BOPOMOFO", "KHMER", "LAO", "MYANMAR", "THAI", "TIBETAN"}) | KANA
_DENSE: Final = frozenset({"CJK", "HANGUL"}) | KANA  # one sign says as much as two or three letters


def scripts_of(language: str) -> frozenset[str]:
    """The scripts that *language* is written in; empty for a language that is not listed: nothing contradicts it."""
    return frozenset(script for script, languages in _LANGUAGES.items() if language in languages.split())


@lru_cache(maxsize=4096)
def script(character: str) -> str:
    """The script of a letter by its Unicode name; '' for what is no letter."""
    if not character.isalpha():
        return ""
    return unicodedata.name(character, "").partition(" ")[0].partition("-")[0]


def weights(text: str) -> Counter[str]:
    """How much of *text* is in each script; a dense sign counts for two letters."""
    found: Counter[str] = Counter()
    for character in unicodedata.normalize("NFKC", text):
        name = script(character)
        if name:
            found[name] += 2 if name in _DENSE else 1
    return found
