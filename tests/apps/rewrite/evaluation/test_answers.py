"""From an answer to a response: what the model may say, and what it may not decide."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from penstock.apps.rewrite.evaluation import response_of
from penstock.apps.rewrite.models import LONGEST_OUTPUT, RewriteResponseV1
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass, is_retryable
from tests.apps.rewrite.evaluation.support import DECISION, a_request

CANARY = "canary-51c2 would like to talk"
GOOD = {"rewritten_text": CANARY, "output_locale": "es"}


def refused(data: Any, **members: Any) -> Failed:
    with pytest.raises(Failed) as raised:
        response_of(data, a_request(**members), DECISION)
    return raised.value


@pytest.mark.contract("A-66", "L-75")
def test_versions_and_strength_are_those_of_route_and_request() -> None:
    made = response_of(GOOD, a_request(strength="light_touch"), DECISION.model_copy(update={"policy_version": "v7"}))

    assert made == RewriteResponseV1.model_validate(
        {
            "schema": "RewriteResponseV1",
            "rewritten_text": CANARY,
            "output_locale": "es",
            "rewrite_strength": "light_touch",
            "prompt_version": "v1",
            "policy_version": "v7",
        }
    )


@pytest.mark.parametrize("declared", ["es", "es-MX", "ES", "es_419", " es ", "spa"])
def test_a_locale_is_compared_by_its_language(declared: str) -> None:
    assert response_of({**GOOD, "output_locale": declared}, a_request(), DECISION).output_locale == "es"


@pytest.mark.contract("A-43", "A-46", "A-62", "L-55")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"rewritten_text": CANARY}, "NOT_AN_ANSWER"),
        ({"output_locale": "es"}, "NOT_AN_ANSWER"),
        ({**GOOD, "explanation": CANARY}, "NOT_AN_ANSWER"),
        ({**GOOD, "rewrite_strength": "light_touch"}, "NOT_AN_ANSWER"),
        ({**GOOD, "rewritten_text": ["es", CANARY]}, "NOT_AN_ANSWER"),
        ({**GOOD, "rewritten_text": None}, "NOT_AN_ANSWER"),
        ({**GOOD, "rewritten_text": "\ud800" + CANARY}, "NOT_AN_ANSWER"),
        ({**GOOD, "output_locale": ""}, "NOT_AN_ANSWER"),
        ({**GOOD, "output_locale": CANARY * 3}, "NOT_AN_ANSWER"),
        ({**GOOD, "rewritten_text": ""}, "EMPTY"),
        ({**GOOD, "rewritten_text": CANARY * LONGEST_OUTPUT}, "TOO_LONG"),
        ('{"rewritten_text": "' + CANARY, "NOT_AN_ANSWER"),
        ([GOOD, GOOD], "NOT_AN_ANSWER"),
        (None, "NOT_AN_ANSWER"),
        (CANARY, "NOT_AN_ANSWER"),
    ],
)
def test_what_is_no_whole_answer_is_refused_for_good(data: Any, code: str) -> None:
    failed = refused(data)

    assert failed.error_class is FailureClass.SCHEMA_INVALID
    assert not is_retryable(failed.error_class, idempotent=True)
    assert code in str(failed)


@pytest.mark.contract("A-31", "A-49", "C-41", "L-70")
@pytest.mark.parametrize("declared", ["en", "fr-FR", "pt", "und", "xx-nonsense", "Spanish"])
def test_another_locale_than_the_target_is_a_mismatch_for_good(declared: str) -> None:
    failed = refused({**GOOD, "output_locale": declared})

    assert failed.error_class is FailureClass.LOCALE_MISMATCH
    assert not is_retryable(failed.error_class, idempotent=True)
    assert "LOCALE_DECLARED" in str(failed)


@pytest.mark.contract("A-82", "L-66", "A-68")
@pytest.mark.parametrize(
    "data", [{**GOOD, "more": CANARY}, {**GOOD, "output_locale": "fr"}, CANARY, {**GOOD, "output_locale": CANARY}]
)
def test_a_refusal_and_all_that_led_to_it_repeat_nothing_of_the_answer(data: Any) -> None:
    failed = refused(data, message="canary-51c2 in the message", terms=("canary-51c2",))

    told = "".join(traceback.format_exception(failed))
    assert "canary" not in f"{told} {failed!r} {failed.__dict__}"
    assert failed.__cause__ is None
    assert failed.__context__ is None
