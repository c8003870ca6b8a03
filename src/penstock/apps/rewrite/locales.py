"""Locales and lanes, decided by rule: the same input gives the same answer, today and on a retry (L-09, L-75)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import langcodes
from langcodes.tag_parser import LanguageTagError

from penstock.apps.rewrite.models import Confidence, Lane

if TYPE_CHECKING:
    from penstock.apps.rewrite.models import ClassifierResultV1

FALLBACK: Final = "en"
LONGEST_TAG: Final = 35
# A language of two or three letters, whatever follows it, and what an environment variable adds: de_DE.UTF-8.
_TAG: Final = re.compile(r"(?P<tag>(?P<primary>[A-Za-z]{2,3})(?:[-_][A-Za-z0-9_-]*)?)(?:[.@][A-Za-z0-9.@_-]*)?")
_MISSING: Final = frozenset({"und", "mul", "zxx", "mis"})
_PRIVATE: Final = ("qaa", "qtz")  # codes that mean something else to everybody
_SAME: Final = {"nb": "no"}  # one written language under two codes, which langcodes keeps apart


def normalized(tag: str | None) -> str | None:
    """The primary language of a tag, in small letters: `es-MX` is `es`. None for a tag that says nothing (C-38).

    Only the language has to be one: `es-nowhere` is Spanish all the same. Codes
    of one language come out as one code (`iw` is `he`, `cmn` is `zh`), so that
    equal languages are equal strings.
    """
    text = (tag or "").strip()
    return _code(text) if len(text) <= LONGEST_TAG else None


@lru_cache(maxsize=1024)
def _code(text: str) -> str | None:
    match = _TAG.fullmatch(text)
    if match is None:
        return None
    code = _language(match["tag"].replace("_", "-"), match["primary"])
    if code in _MISSING or _PRIVATE[0] <= code <= _PRIVATE[1] or not langcodes.Language.make(language=code).is_valid():
        return None
    return _SAME.get(code, code)


def _language(tag: str, primary: str) -> str:
    """The whole tag has the word (`zh-yue` is `yue`); one that cannot be read is known by its beginning."""
    try:
        language = langcodes.Language.get(tag, normalize=True)
    except (LanguageTagError, ValueError):
        language = langcodes.Language.get(primary, normalize=True)
    return (language.prefer_macrolanguage().language or "und").lower()


def source_locale(result: ClassifierResultV1, profile: str | None) -> str:
    """What the classifier is sure of; else the sender's profile; else English (L-23 to L-25)."""
    if result.language_confidence is not Confidence.LOW:
        detected = normalized(result.detected_language)
        if detected is not None:
            return detected
    return normalized(profile) or FALLBACK


def target_locale(recipient: str | None) -> str:
    """The recipient's language, or English (L-26)."""
    return normalized(recipient) or FALLBACK


def lane_of(source: str, target: str) -> Lane:
    """The lane depends on nothing but the equality of the two (L-07, L-28)."""
    return Lane.SAME_LANGUAGE if source == target else Lane.CROSS_LANGUAGE
