"""Polite sentences that show which input they came from: the default answer of the emulated models."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Final

MOST_CHARACTERS: Final = 400
OPENINGS: Final = (
    "When you have a moment, could we talk about this:",
    "I would really appreciate your help with this:",
    "Thank you for bearing with me. What I mean is:",
    "May I ask a small favour?",
    "I hope you are well. I wanted to mention:",
)
CLOSINGS: Final = ("Thank you!", "Thanks for understanding.", "Let me know what suits you.")
FOREIGN: Final = "Das hier ist eine Antwort in einer Sprache, um die niemand gebeten hat."


def polite(text: str) -> str:
    """*text*, put politely. The same text always gives the same sentence, another text another one."""
    digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
    said = _heart(text)
    opening = OPENINGS[digest[0] % len(OPENINGS)]
    closing = CLOSINGS[digest[1] % len(CLOSINGS)]
    return f"{opening} {said} {closing}" if said else f"{opening} {closing}"


def _heart(text: str) -> str:
    """The sentence inside *text*: of a JSON object its longest string; without shouting."""
    said = " ".join(_longest_string(text).replace("\x00", "").split())[:MOST_CHARACTERS].rstrip("!?. ")
    return f"{said}." if said else ""


def _longest_string(text: str) -> str:
    if not text.lstrip().startswith("{"):
        return text
    try:
        found = json.loads(text)
    except ValueError:
        return text
    strings = [value for value in found.values() if isinstance(value, str)]
    return max(strings, key=len, default=text)
