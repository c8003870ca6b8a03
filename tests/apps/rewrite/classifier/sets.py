"""The labelled messages, and how well a set of them is answered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from penstock.apps.rewrite.classifier import Detection, detect
from penstock.apps.rewrite.models import Confidence

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Message:
    """A text and the language it is (mainly) in."""

    text: str
    language: str


@dataclass(frozen=True)
class Score:
    """How many there are, how many of them were called medium or high, and how many of those were right."""

    count: int
    sure: int
    right: int

    @property
    def coverage(self) -> float:
        return self.sure / self.count

    @property
    def precision(self) -> float:
        return self.right / self.sure


def messages(name: str) -> list[Message]:
    """The messages of one file."""
    return [Message(**one) for one in json.loads((HERE / name).read_text("utf-8"))]


def is_sure(found: Detection) -> bool:
    """Whether the orchestrator would go by it."""
    return found.confidence is not Confidence.LOW


def score(given: list[Message]) -> Score:
    """Detect all of them, over the default languages."""
    found = [(message, detect(message.text)) for message in given]
    sure = [(message, detection) for message, detection in found if is_sure(detection)]
    right = [message for message, detection in sure if detection.language == message.language]
    return Score(len(found), len(sure), len(right))
