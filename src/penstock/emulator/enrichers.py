"""What the emulated models find in a saved item: its first words, its telling words, and the names in it.

The item stands in a fence, each line behind a quote mark. The same item always
gives the same answer, and every part of it comes from the item.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

MEMBERS: Final = frozenset({"title", "summary", "tags", "language", "entities"})
MOST_TAGS: Final = 5
MOST_NAMES: Final = 5
TITLE: Final = 60
SUMMARY: Final = 240
_QUOTED: Final = re.compile(r"^\| ?(?P<line>.*)$", re.MULTILINE)
_KIND: Final = re.compile(r"kind: [a-z]+(, cut)?")
_WORD: Final = re.compile(r"[^\W\d_]{5,}")
_NAME: Final = re.compile(r"(?<=[\w,;:] )[A-ZÄÖÜÉ][^\W\d_]+(?: [A-ZÄÖÜÉ][^\W\d_]+)*")
_COMPANY: Final = re.compile(r"\b(AG|GmbH|Inc|Ltd|LLC|SA)$")
_TELLING: Final[Mapping[str, frozenset[str]]] = {
    "de": frozenset(["der", "die", "das", "und", "ist", "nicht", "ich", "ein", "eine", "mit", "für", "auf"]),
    "en": frozenset(["the", "and", "is", "of", "to", "a", "in", "that", "it", "with", "for", "on"]),
    "es": frozenset(["el", "la", "los", "las", "y", "es", "de", "que", "en", "un", "una", "con"]),
    "fr": frozenset(["le", "la", "les", "et", "est", "de", "que", "dans", "un", "une", "avec", "pour"]),
}


def is_enricher(schema: Mapping[str, Any] | None) -> bool:
    """Whether *schema* asks what a saved item is about."""
    match schema:
        case {"properties": {**members}}:
            return set(members) == MEMBERS
        case _:
            return False


def enrichment(text: str) -> dict[str, object]:
    """What there is to say about the item in *text*."""
    item = _item(text)
    return {
        "title": _cut(re.split(r"(?<=[.!?])\s|\n", item)[0].rstrip(".!?"), TITLE) or "Something saved",
        "summary": _cut(" ".join(item.split()), SUMMARY),
        "tags": _tags(item),
        "language": _language(item),
        "entities": [{"name": name, "kind": _kind(name)} for name in dict.fromkeys(_NAME.findall(item))][:MOST_NAMES],
    }


def _item(text: str) -> str:
    """The item without its fence; a text that has none is the item itself."""
    lines = [found["line"] for found in _QUOTED.finditer(text)] or text.splitlines()
    return "\n".join(lines[1:] if lines and _KIND.fullmatch(lines[0]) else lines).strip()


def _tags(item: str) -> list[str]:
    counted = Counter(word.lower() for word in _WORD.findall(item))
    return [word for word, _ in sorted(counted.items(), key=lambda each: (-each[1], -len(each[0]), each[0]))][
        :MOST_TAGS
    ]


def _language(item: str) -> str:
    """The language with the most of its small words in the item; none of them: nobody can tell."""
    words = Counter(re.findall(r"[^\W\d_]+", item.lower()))
    scores = {code: sum(words[word] for word in telling) for code, telling in _TELLING.items()}
    best = max(scores, key=lambda code: (scores[code], code == "en"))
    return best if scores[best] else "und"


def _kind(name: str) -> str:
    if _COMPANY.search(name):
        return "organization"
    return "person" if " " in name else "other"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
