"""The classifier that works by rules: the same text gives the same result, on every machine."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from penstock.apps.rewrite.classifier import languages as tongues
from penstock.apps.rewrite.classifier.detection import detected
from penstock.apps.rewrite.classifier.labels import SAFETY_FLAGS, TOPICS
from penstock.apps.rewrite.classifier.personal import has_personal_data
from penstock.apps.rewrite.classifier.rulebook import Rulebook, data_version, rulebooks
from penstock.apps.rewrite.classifier.text import folded, words
from penstock.apps.rewrite.models import LONGEST_MESSAGE, ClassifierResultV1, Confidence, Strength

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.apps.rewrite.classifier.port import Detection

MOST_TOPICS: Final = 4
REFRAME_FROM: Final = 2  # points
POINTS: Final[Mapping[str, int]] = {
    "threat": 3,
    "hate": 3,
    "harassment": 2,
    "insult": 2,
    "swear": 1,
    "blame": 1,
    "shouting": 2,  # most of the words in capitals
    "capitals": 1,  # a word or two
    "exclamations": 1,
}
EXCLAMATIONS: Final = 3
INSULTS_THAT_HARASS: Final = 2
_MARKS: Final = re.compile("[!\uff01]")
_QUESTION: Final = re.compile("[?\uff1f]")
_SHORTEST_SHOUT: Final = 4  # letters: WIFI apart, abbreviations are shorter


@dataclass(frozen=True, slots=True)
class Reading:
    """What the terms of one rulebook find in a text."""

    topics: Mapping[str, int]
    intents: Mapping[str, int]
    signals: Mapping[str, int]
    safety: Mapping[str, int]
    asks: bool  # it begins with a word that begins questions

    @property
    def weight(self) -> int:
        """How many terms were found in all."""
        return sum(sum(group.values()) for group in (self.topics, self.intents, self.signals, self.safety))


NOTHING_READ: Final = Reading({}, {}, {}, {}, asks=False)


class RuleClassifier:
    """Language by models and scripts, everything else by the terms of the data files."""

    def __init__(self, languages: Sequence[str] | None = None) -> None:
        self._languages = None if languages is None else sorted(tongues.chosen(languages))
        self.version = _version(tongues.chosen(languages))

    async def classify(self, text: str) -> ClassifierResultV1:
        """Classify *text* in a thread: the models compute for some milliseconds, and read for seconds at first."""
        return await asyncio.to_thread(self.classified, text)

    def classified(self, text: str) -> ClassifierResultV1:
        """What the rules say about *text*; of an enormous one, about its beginning."""
        text = text[:LONGEST_MESSAGE]
        found = detected(text, self._languages)
        reading = _reading(folded(text), found)
        return ClassifierResultV1(
            classifier_version=self.version,
            detected_language=found.language,
            language_confidence=found.confidence,
            topics=_topics(reading),
            intent=_intent(reading, text),
            rewrite_strength=_strength(reading, text),
            safety_flags=_flags(reading, text),
        )


def _version(languages: frozenset[str]) -> str:
    """Everything that a result depends on: the data, the models, the configured languages."""
    codes = hashlib.sha256(",".join(sorted(languages)).encode()).hexdigest()[:6]
    return f"rules-{data_version()}-lingua-{version('lingua-language-detector')}-{codes}"


def _reading(text: str, found: Detection) -> Reading:
    """By the rulebook of the language; where that is uncertain, by the one that finds the most.

    Never by several at once: one language's article is another one's threat.
    """
    books = rulebooks()
    if found.confidence is not Confidence.LOW:
        book = books.get(found.language or "")
        return _read(book, text) if book else NOTHING_READ
    return max((_read(book, text) for book in books.values()), key=lambda reading: reading.weight)


def _read(book: Rulebook, text: str) -> Reading:
    intents = book.hits("intents", text)
    asks = bool((pattern := book.groups["intents"].get("question")) and pattern.match(text))
    intents.pop("question", None)  # a question word in the middle asks nothing
    return Reading(book.hits("topics", text), intents, book.hits("signals", text), book.hits("safety", text), asks)


def _topics(reading: Reading) -> tuple[str, ...]:
    """The topics, most terms first; `other` where there is none."""
    ranked = sorted(reading.topics, key=lambda topic: (-reading.topics[topic], TOPICS.index(topic)))
    return tuple(ranked[:MOST_TOPICS]) or ("other",)


def _intent(reading: Reading, text: str) -> str:
    """One intent: what is asked for goes before how it is put, and irony before thanks."""
    complains = bool(reading.intents.get("complaint") or reading.signals)
    if "request" in reading.intents:
        return "request"
    if "apology" in reading.intents and not reading.signals:
        return "apology"
    if "thanks" in reading.intents and not complains:
        return "thanks"
    if complains:
        return "complaint"
    return "question" if reading.asks or _QUESTION.search(text) else "unclear"


def _strength(reading: Reading, text: str) -> Strength:
    present = {*reading.signals, *reading.safety, *_tone(text)}
    points = sum(POINTS.get(signal, 0) for signal in present)
    return Strength.FULL_REFRAME if points >= REFRAME_FROM else Strength.LIGHT_TOUCH


def _tone(text: str) -> set[str]:
    """What can be heard in any language: capitals and exclamation marks."""
    spoken = [word for word in words(text) if len(word) >= _SHORTEST_SHOUT]
    loud = [word for word in spoken if word.isupper()]
    tone = {"exclamations"} if len(_MARKS.findall(text)) >= EXCLAMATIONS else set()
    if loud:
        tone.add("shouting" if len(loud) > 1 and len(loud) * 2 > len(spoken) else "capitals")
    return tone


def _flags(reading: Reading, text: str) -> tuple[str, ...]:
    present = set(reading.safety)
    if reading.signals.get("insult", 0) >= INSULTS_THAT_HARASS:
        present.add("harassment")
    if has_personal_data(text):
        present.add("personal_data")
    return tuple(flag for flag in SAFETY_FLAGS if flag in present)
