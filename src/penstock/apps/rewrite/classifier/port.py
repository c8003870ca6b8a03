"""The port of the classifiers, and the ways to get one.

The language models and the rule files are read when they are first used, so
importing this costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from penstock.apps.rewrite.models import ClassifierResultV1, Confidence, Strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.contract.calls import Route
    from penstock.engine.batches.asking import Adapters

FALLBACK_VERSION: Final = "fallback-1"


@dataclass(frozen=True, slots=True)
class Detection:
    """The language a text seems to be in; a guess at low confidence, None where there is nothing to go by."""

    language: str | None
    confidence: Confidence


class Classifier(Protocol):
    """Whatever can advise about a message."""

    async def classify(self, text: str) -> ClassifierResultV1:
        """What *text* seems to be; it may raise, `classify_or_fallback` does not."""


def detect(text: str, languages: Sequence[str] | None = None) -> Detection:
    """The language of *text* among *languages* (tags such as `en` or `pt-BR`; None: the default ones).

    It computes for some milliseconds: call it in a thread where others wait. A
    language that is not known is `SettingsInvalid`.
    """
    from penstock.apps.rewrite.classifier.detection import detected

    return detected(text, languages)


def warm_up(languages: Sequence[str] | None = None) -> None:
    """Read the models now, in a thread at the start of a process, and not while the first message waits."""
    from penstock.apps.rewrite.classifier.languages import chosen, detector

    detector(chosen(languages))


def rule_classifier(languages: Sequence[str] | None = None) -> Classifier:
    """The classifier that works by rules alone: the same text, the same result."""
    from penstock.apps.rewrite.classifier.rules import RuleClassifier

    return RuleClassifier(languages)


def llm_classifier(adapters: Adapters, route: Route, fallback: Classifier, *, seconds: float = 10.0) -> Classifier:
    """The classifier that asks the model of *route*; when it fails, *fallback* has the word."""
    from penstock.apps.rewrite.classifier.llm import LlmClassifier

    return LlmClassifier(adapters, route, fallback, seconds=seconds)


def unsure() -> ClassifierResultV1:
    """The result that claims nothing: no language, low confidence, light touch (R-02)."""
    return ClassifierResultV1(
        classifier_version=FALLBACK_VERSION,
        detected_language=None,
        language_confidence=Confidence.LOW,
        rewrite_strength=Strength.LIGHT_TOUCH,
    )


async def classify_or_fallback(classifier: Classifier, text: str) -> ClassifierResultV1:
    """What *classifier* says; any error at all is the result that claims nothing.

    The error itself is dropped apart from its class: it may quote the message.
    """
    from penstock.apps.rewrite.classifier import events

    try:
        return ClassifierResultV1.model_validate(await classifier.classify(text))
    except Exception as error:
        events.classifier_failed(type(classifier).__name__, error)
        return unsure()
