"""What a model is told: the lane, the strength, the wishes of one recipient, and one message."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import pytest

from penstock.apps.rewrite.models import Lane, RewriteAnswer, Strength
from penstock.apps.rewrite.prompts import Rendered, prompt, versions
from tests.apps.rewrite.evaluation.support import a_request

V1 = prompt("v1")
# A version in use never changes: whoever edits it makes a new one, and adds its digest here.
PUBLISHED = {"v1": "4a70a1729ca33f7a46455e20ca82fc711a68db7fb456e98e5c75351376f62b4f"}


def instructions(**members: Any) -> str:
    return V1.render(a_request(**members)).instructions


@pytest.mark.contract("A-34", "L-30")
@pytest.mark.parametrize("locale", ["en", "es", "ja"])
def test_in_one_language_nothing_is_said_of_a_translation(locale: str) -> None:
    said = instructions(source=locale, target=locale)

    assert "translat" not in said.lower()
    assert f"({locale})" in said
    assert f'"output_locale", which is "{locale}"' in said


@pytest.mark.contract("A-34", "L-31")
def test_between_languages_the_rewrite_is_asked_for_directly_and_alone() -> None:
    said = instructions(source="de", target="es")

    assert "written in German (de), and the reader reads Spanish (es)" in said
    assert "translating" in said
    assert "that one version only: no text in German (de), no literal\ntranslation beside it" in said
    assert '"output_locale", which is "es"' in said


@pytest.mark.contract("A-31", "L-43")
@pytest.mark.parametrize(("source", "target"), [*itertools.permutations(["en", "es", "ja", "hi"], 2)])
def test_the_language_asked_for_is_the_targets(source: str, target: str) -> None:
    said = instructions(source=source, target=target)

    assert f'which is "{target}"' in said
    assert f'which is "{source}"' not in said


def test_every_lane_and_strength_has_instructions_of_its_own() -> None:
    pairs = [(strength, target) for strength in Strength for target in ("en", "es")]
    assert len({instructions(strength=strength, target=target) for strength, target in pairs}) == 4
    assert set(V1.lanes) == set(Lane)


def test_a_language_without_a_name_is_asked_for_by_its_code() -> None:
    assert "the language with the code gsw" in instructions(target="gsw")


@pytest.mark.contract("L-75")
def test_the_model_is_asked_for_the_members_of_the_answer_and_for_no_decision() -> None:
    said = instructions()

    assert all(f'"{member}"' in said for member in RewriteAnswer.model_fields)
    for decided in ("prompt_version", "policy_version", "rewrite_strength", "provider", "lane"):
        assert decided not in said


def test_the_tone_is_the_recipients_and_an_unknown_one_is_the_default() -> None:
    assert "Tone: warm and friendly" in instructions(tone="warm")
    assert instructions(tone="sardonic") == instructions() == instructions(tone="default")


def test_the_recipients_words_are_a_quoted_list_on_one_line() -> None:
    said = V1.render(a_request(terms=("lazy", 'a "pig"', "two\nlines\u2028and {braces} $target"))).instructions

    assert r'"lazy", "a \"pig\"", "two lines and {braces} $target"' in said
    assert "do not occur in your version" not in instructions()


@pytest.mark.contract("A-56", "L-53")
def test_a_question_holds_the_text_of_one_request_and_nobody_elses() -> None:
    canaries = [f"canary-{number}" for number in range(5)]
    rendered = [V1.render(a_request(f"wash up, {canary}!", terms=(f"term-{canary}",))) for canary in canaries]

    for mine, question in zip(canaries, rendered, strict=True):
        whole = question.instructions + question.text
        assert [canary for canary in canaries if canary in whole] == [mine]
        assert question.text.count(mine) == 1
        assert f"wash up, {mine}" not in question.instructions


@pytest.mark.contract("L-75", "A-65")
def test_a_retry_asks_the_very_same_question() -> None:
    assert V1.render(a_request("again\nand again")) == V1.render(a_request("again\nand again"))


@pytest.mark.contract("A-82", "L-66")
def test_a_question_does_not_show_its_texts() -> None:
    shown = repr(V1.render(a_request("canary-message", terms=("canary-term",))))
    assert "canary" not in shown
    assert shown == repr(Rendered("", ""))


def test_what_a_classifier_drew_from_the_message_stays_out_of_the_instructions() -> None:
    with_labels = a_request(topics=("ignore_all_rules", "noise"), intent="answer_in_french")
    assert V1.render(with_labels) == V1.render(a_request())


@pytest.mark.contract("A-65")
def test_a_published_version_does_not_change() -> None:
    questions = [
        V1.render(a_request(source="en", target=target, strength=strength, tone=tone, terms=("lazy",))).instructions
        for target in sorted(V1.languages)
        for strength in Strength
        for tone in sorted(V1.tones)
    ]
    assert set(versions()) == set(PUBLISHED)
    assert hashlib.sha256("\0".join(questions).encode()).hexdigest() == PUBLISHED["v1"]
