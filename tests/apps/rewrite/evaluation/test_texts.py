"""What is wrong with a text in any language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.apps.rewrite.evaluation import evaluate_rewrite
from penstock.apps.rewrite.evaluation.texts import is_cut_off
from penstock.apps.rewrite.models import LONGEST_OUTPUT, RewriteResponseV1
from penstock.apps.rewrite.prompts import prompt
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass
from tests.apps.rewrite.evaluation.support import a_request, a_response, finds, verdict_on, words_of

NOTHING = finds(None, "low")


@pytest.mark.parametrize("text", [" ", "\n\t \n", "\u200b\u200d", "\ufeff ", "\u00ad"])
def test_a_text_without_anything_to_see_is_empty(text: str) -> None:
    verdict = verdict_on(text)
    assert verdict.detail == ("EMPTY",)
    assert verdict.failures == (FailureClass.SCHEMA_INVALID,)


@pytest.mark.parametrize("text", ["😡😡😡", "👍🏽 🙏", "...", "42", "?!", "❤️‍🔥 1 + 1 = 2"])
def test_emoji_and_numbers_alone_are_no_rewrite(text: str) -> None:
    assert verdict_on(text).detail == ("NO_WORDS",)


def test_emoji_beside_words_are_fine() -> None:
    assert verdict_on("Could we talk about the dishes tonight? 🙏🏽❤️").ok


def test_a_text_longer_than_the_slot_is_refused_even_where_no_model_checked_it() -> None:
    response = RewriteResponseV1.model_construct(
        **{**dict(a_response("x", "en")), "rewritten_text": "please talk to me. " * 400}
    )
    verdict = evaluate_rewrite(response, a_request(source="de", target="en"), detect=finds("en"))
    assert verdict.detail == ("TOO_LONG",)
    assert verdict.failures == (FailureClass.SCHEMA_INVALID,)


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x7f", "\x85", "\u202e", "\ufffd"])
def test_control_characters_and_broken_text_are_refused(character: str) -> None:
    assert "CONTROL_CHARACTER" in words_of(f"Could we talk{character} tonight?")


@pytest.mark.parametrize("character", ["\n", "\t", "\r\n", "\u00a0", "\u200e", "\u200d"])
def test_line_breaks_tabs_and_joiners_are_no_control_characters(character: str) -> None:
    assert words_of(f"Could we talk{character} tonight?") == ()


@pytest.mark.contract("A-46")
@pytest.mark.parametrize(
    "text",
    [
        "I would like to talk about the dishes,",
        "I feel (",
        "今夜話したいのですが、",
        "I would like to dis-",
        "Please:",
        "Ich \u2014",
    ],
)
def test_a_text_that_stops_in_the_middle_is_refused(text: str) -> None:
    assert "CUT_OFF" in verdict_on(text, detect=NOTHING).detail


@pytest.mark.contract("A-46")
def test_a_text_that_was_held_to_the_longest_length_is_refused_unless_its_sentence_ended_there() -> None:
    cut = ("Please talk to me about it " * 200)[:LONGEST_OUTPUT].rstrip().ljust(LONGEST_OUTPUT, "x")
    whole = cut[:-1] + "."

    assert words_of(cut) == ("CUT_OFF",)
    assert words_of(whole) == ()


@pytest.mark.parametrize(
    "text",
    [
        "Talk soon",
        "Talk soon :(",
        "Talk soon ;-(",
        "Μιλάμε απόψε;",
        "Er sagt: „Bis bald“",
        "On dit « à demain »",
        "ok…",
    ],
)
def test_an_ending_without_a_full_stop_is_no_cut(text: str) -> None:
    assert not is_cut_off(text)


def test_an_answer_that_leaks_the_fence_of_the_prompt_is_refused() -> None:
    asked = prompt("v1").render(a_request("Please wash up."))
    leaked = f"Could we wash up together? {asked.text.splitlines()[0]} and so on."
    assert words_of(leaked) == ("FENCE_ECHOED",)


def test_every_failure_is_found_and_each_class_is_named_once() -> None:
    verdict = verdict_on("You idiot, you always\x00 leave the dishes", terms=("dishes",), detect=finds("fr"))

    assert verdict.detail == (
        "CONTROL_CHARACTER",
        "LOCALE_DETECTED",
        "BLOCKED_TERM",
        "BLAME_PHRASE",
        "RECIPIENT_TERM",
    )
    assert verdict.failures == (
        FailureClass.SCHEMA_INVALID,
        FailureClass.LOCALE_MISMATCH,
        FailureClass.LEXICON_BLOCKED,
    )


@pytest.mark.contract("A-45", "A-62")
def test_a_refusal_is_raised_with_its_first_class_and_codes_only() -> None:
    verdict = verdict_on("You canary-idiot, you idiot.", terms=("canary",), detect=finds("en"))
    with pytest.raises(Failed) as raised:
        verdict.raise_if_refused()

    assert raised.value.error_class is FailureClass.LEXICON_BLOCKED
    assert "BLOCKED_TERM, RECIPIENT_TERM" in str(raised.value)
    assert "canary" not in str(raised.value)
    verdict_on("A kind word for us both.", detect=finds("en")).raise_if_refused()


@pytest.mark.contract("A-82", "L-66")
@given(text=st.text(min_size=1, max_size=60), terms=st.lists(st.text(min_size=1, max_size=20), max_size=3))
def test_no_text_and_no_word_list_breaks_the_evaluation_or_shows_in_its_verdict(text: str, terms: list[str]) -> None:
    verdict = verdict_on(f"canary {text}", terms=("canary", *terms), detect=NOTHING)

    assert "RECIPIENT_TERM" in verdict.detail
    assert "canary" not in repr(verdict)
    assert all(code.isupper() for code in verdict.detail)
