"""Whatever a classifier does, the orchestrator gets a result."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from penstock.apps.rewrite.classifier import Classifier, classify_or_fallback, llm_classifier
from penstock.apps.rewrite.locales import source_locale
from penstock.apps.rewrite.models import ClassifierResultV1, Confidence, Strength
from penstock.contract.calls import Route
from penstock.contract.errors import Failed, SettingsInvalid
from penstock.contract.failures import FailureClass
from penstock.engine.batches.asking import GivenAdapters

CANARY = "zebra-canary-4711"


class Broken:
    """Raises, or returns, whatever it was given."""

    def __init__(self, gives: Any) -> None:
        self.gives = gives

    async def classify(self, text: str) -> ClassifierResultV1:  # noqa: ARG002 - as the port has it
        if isinstance(self.gives, BaseException):
            raise self.gives
        return cast("ClassifierResultV1", self.gives)


ERRORS = [
    ValueError(CANARY),
    Failed(FailureClass.AUTH_DENIED),
    TimeoutError(),
    MemoryError(),
    RecursionError(),
    SettingsInvalid("no"),
    UnicodeEncodeError("utf-8", CANARY, 0, 1, "surrogates"),
    ExceptionGroup("all", [OSError(CANARY)]),
]


@pytest.mark.contract("L-20", "L-66", "R-02")
@pytest.mark.parametrize("gives", [*ERRORS, None, "en", {"detected_language": CANARY}, 7], ids=repr)
async def test_any_error_is_low_confidence_no_language_and_a_light_touch(
    gives: Any, caplog: pytest.LogCaptureFixture
) -> None:
    result = await classify_or_fallback(Broken(gives), f"text {CANARY}")

    assert result == ClassifierResultV1(
        classifier_version="fallback-1",
        detected_language=None,
        language_confidence=Confidence.LOW,
        topics=(),
        intent="unclear",
        rewrite_strength=Strength.LIGHT_TOUCH,
        safety_flags=(),
    )
    assert CANARY not in caplog.text


@pytest.mark.contract("L-24", "L-25")
@pytest.mark.parametrize(("profile", "source"), [("de-DE", "de"), (None, "en")])
async def test_without_a_classifier_the_profile_and_then_english_decide(profile: str | None, source: str) -> None:
    result = await classify_or_fallback(Broken(RuntimeError()), "la cocina está sucia otra vez")

    assert source_locale(result, profile) == source


async def test_a_fallback_that_fails_too_still_leaves_a_result() -> None:
    both: Classifier = llm_classifier(GivenAdapters({}), Route("local", "m", "none"), Broken(KeyError(CANARY)))

    assert (await both.classify("the kitchen is dirty")).classifier_version == "fallback-1"


async def test_who_is_cancelled_is_not_answered() -> None:
    with pytest.raises(asyncio.CancelledError):
        await classify_or_fallback(Broken(asyncio.CancelledError()), "text")


async def test_a_good_result_passes_as_it_is() -> None:
    good = ClassifierResultV1(classifier_version="x", detected_language="es", language_confidence=Confidence.HIGH)

    assert await classify_or_fallback(Broken(good), "text") is good
