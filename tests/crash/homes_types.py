"""The cast of the campaign of homes: a model that watches, a classifier that knows, and the settings of everybody."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.apps.rewrite.keyring import new_key
from penstock.apps.rewrite.models import ClassifierResultV1, Confidence
from tests.apps.rewrite.rewriter import COMPLAINTS, KINDLY, answer

if TYPE_CHECKING:
    from penstock.emulator import Emulator, Question

UNKINDLY: Final = " (unkindly)"  # a message that ends so gets an answer that must be refused
_CANARY: Final = re.compile(r"canary-[0-9a-f]{12}")


@dataclass
class Model:
    """The emulated model; it notes every question that shows more, or less, than one message."""

    problems: list[str]

    def __call__(self, question: Question) -> Any:
        """Answer kindly, unless the message asks for something else."""
        seen = set(_CANARY.findall(question.text))
        if len(seen) != 1:
            self.problems.append(f"a question shows {len(seen)} messages")
        said = answer(question)
        if UNKINDLY in question.text:
            wrong = next(code for code in ("ja", "zh") if code != said["output_locale"])
            return {**said, "rewritten_text": KINDLY[wrong]}
        return said


def settings_of(emulator: Emulator) -> dict[str, Any]:
    """What both sides are built from: one message in four takes the async route."""
    route = {
        "provider": "openai", "adapter_kind": "openai_responses", "base_url": emulator.openai_base_url,
        "model": "small", "prompt_version": "v1", "policy_version": "v1", "execution_mode": "batch",
        "cache_eligible": True, "max_retries": 20,
    }  # fmt: skip
    rule = {"when": {"surface": "other"}, "route": {**route, "execution_mode": "async"}}
    return {
        "text_keys": new_key("chaos"), "rewrite_routes": json.dumps({"default": route, "rules": [rule]}),
        "openai_api_key": "any", "rewrite_attempts": 20, "max_jobs_per_run": 150, "retry_backoff_seconds": [1],
        "grace_seconds": 5, "pool_min": 0,
    }  # fmt: skip


class Knows:
    """A classifier that knows the complaints: the campaign is not about languages."""

    async def classify(self, text: str) -> ClassifierResultV1:
        """Its language, for sure."""
        language = next(code for code, known in COMPLAINTS.items() if text.startswith(known))
        return ClassifierResultV1(
            classifier_version="knows-1", detected_language=language, language_confidence=Confidence.HIGH
        )
