"""The data files: one of terms for each language, and one of words that betray a language.

A term is a word or several in a row; `*` stands for any letters (`clean*`).
Terms are compared folded, so that a file may be written with or without
accents. Where a language sets no spaces, a term is found anywhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from penstock.apps.rewrite.classifier.labels import INTENTS, RULED_FLAGS, SIGNALS, TOPICS
from penstock.apps.rewrite.classifier.text import folded
from penstock.contract.errors import SettingsInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "topics": TOPICS,
    "intents": INTENTS,
    "signals": SIGNALS,
    "safety": RULED_FLAGS,
}
_NO_RULES: Final = frozenset({"manifest.json", "speech.json"})
_MEMBERS: Final = frozenset({"language", "match", "spellings", *GROUPS})
_STAR: Final = "\ue000"  # stands for `*` while a term is folded


@dataclass(frozen=True, slots=True)
class Rulebook:
    """The terms of one language, ready to be looked for in folded text."""

    language: str
    groups: Mapping[str, Mapping[str, re.Pattern[str]]]

    def hits(self, group: str, text: str) -> dict[str, int]:
        """How many different terms of each label of *group* are in the folded *text*; labels without one are absent."""
        found = {label: len(set(pattern.findall(text))) for label, pattern in self.groups[group].items()}
        return {label: count for label, count in found.items() if count}


def parsed(name: str, content: Mapping[str, Any]) -> Rulebook:
    """The rulebook that the file *name* holds; a member or label that is none is `SettingsInvalid`."""
    _refuse(name, "member", set(content) - _MEMBERS)
    groups: dict[str, dict[str, re.Pattern[str]]] = {}
    for group, labels in GROUPS.items():
        terms = content.get(group, {})
        _refuse(name, f"label of {group}", set(terms) - set(labels))
        groups[group] = {label: _pattern(content, terms[label]) for label in labels if terms.get(label)}
    return Rulebook(str(content["language"]), groups)


def _refuse(name: str, what: str, unknown: Iterable[str]) -> None:
    if unknown := sorted(unknown):
        raise SettingsInvalid(f"the rule file {name} has {unknown[0]!r}, which is no {what}; correct or remove it")


def _pattern(content: Mapping[str, Any], terms: Iterable[str]) -> re.Pattern[str]:
    spelled = {form for term in terms for form in _spellings(term, content.get("spellings", {}))}
    shapes = sorted((_shape(term) for term in spelled), key=lambda shape: (-len(shape), shape))  # the longest first
    alternatives = "|".join(shapes)
    return re.compile(alternatives if content["match"] == "substring" else rf"(?<![^ ])(?:{alternatives})(?![^ ])")


def _spellings(term: str, other: Mapping[str, str]) -> set[str]:
    """The term, and as it is written on a keyboard without the letters of the language: `ü` as `ue`."""
    respelled = term
    for letter, instead in other.items():
        respelled = respelled.replace(letter, instead)
    return {term, respelled}


def _shape(term: str) -> str:
    parts = [folded(part) for part in term.split("*")]
    if not any(parts):
        raise SettingsInvalid("a rule file has an empty term; remove it")
    return r"[^ ]*".join(re.escape(part) for part in parts)


@lru_cache(maxsize=1)
def rulebooks() -> Mapping[str, Rulebook]:
    """Every rulebook there is, by language."""
    books = [parsed(name, json.loads(content)) for name, content in _files().items() if name not in _NO_RULES]
    return {book.language: book for book in books}


@lru_cache(maxsize=1)
def data_version() -> str:
    """The version of the data files, with a few digits of their digest: no change goes unnoticed."""
    files = _files()
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + files[name])
    return f"{json.loads(files['manifest.json'])['version']}-{digest.hexdigest()[:8]}"


@lru_cache(maxsize=1)
def _files() -> Mapping[str, bytes]:
    folder = resources.files(__package__) / "data"
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir(), key=str) if file.name.endswith(".json")}


def data(name: str) -> Any:
    """The content of the data file *name*."""
    return json.loads(_files()[name])
