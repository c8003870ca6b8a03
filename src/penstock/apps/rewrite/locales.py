"""Locales and lanes, decided by rule: the same input gives the same answer, today and on a retry (L-09, L-75)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import langcodes

from penstock.apps.rewrite.models import Confidence, Lane

if TYPE_CHECKING:
    from penstock.apps.rewrite.models import ClassifierResultV1

FALLBACK: Final = "en"
_MISSING: Final = frozenset({"", "und", "unknown", "mul", "zxx", "mis"})
LONGEST_TAG: Final = 35


def normalized(tag: str | None) -> str | None:
    """The primary language of a tag, in small letters: `es-MX` is `es`. None for a tag that says nothing (C-38)."""
    text = (tag or "").strip().replace("_", "-")
    if text.lower() in _MISSING or len(text) > LONGEST_TAG or not text.isascii():
        return None
    try:
        language = langcodes.Language.get(text, normalize=True)
    except (langcodes.LanguageTagError, ValueError):
        return None
    code = (language.language or "").lower()
    return code if code not in _MISSING and language.is_valid() else None


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
