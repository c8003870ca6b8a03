"""Realistic rewrites in ten languages: the kind ones pass, the others do not, and the reason is the right one."""

from __future__ import annotations

import pytest

from penstock.apps.rewrite.evaluation import EVAL_VERSION, LEXICON_VERSION
from penstock.contract.failures import FailureClass, is_retryable
from tests.apps.rewrite.evaluation.support import LANGUAGES, REWRITES, of_kind, verdict_on

FOREIGN = [
    (text, target) for text_language, text in of_kind("clean") for target in LANGUAGES if target != text_language
]


def test_there_are_rewrites_in_all_ten_languages() -> None:
    assert set(LANGUAGES) == {"en", "es", "de", "fr", "pt", "it", "nl", "ja", "zh", "hi"}
    assert all(len(kinds["clean"]) >= 5 for kinds in REWRITES.values())


@pytest.mark.contract("A-31", "L-43", "A-94")
@pytest.mark.parametrize(("language", "text"), of_kind("clean"))
def test_a_kind_rewrite_passes(language: str, text: str) -> None:
    verdict = verdict_on(text, language)

    assert verdict.detail == ()
    assert verdict.ok


@pytest.mark.contract("A-43", "A-94", "A-62", "L-55")
@pytest.mark.parametrize(("language", "text"), of_kind("blocked"))
def test_a_slur_or_an_insult_is_refused_for_good(language: str, text: str) -> None:
    verdict = verdict_on(text, language)

    assert verdict.detail == ("BLOCKED_TERM",)
    assert verdict.failures == (FailureClass.LEXICON_BLOCKED,)
    assert not is_retryable(verdict.failures[0], idempotent=True)


@pytest.mark.contract("A-43", "A-94", "A-62", "L-55")
@pytest.mark.parametrize(("language", "text"), of_kind("blame"))
def test_a_phrase_that_blames_is_refused_for_good(language: str, text: str) -> None:
    verdict = verdict_on(text, language)

    assert verdict.detail == ("BLAME_PHRASE",)
    assert verdict.failures == (FailureClass.LEXICON_BLOCKED,)


@pytest.mark.contract("A-31", "A-49", "C-41", "L-48", "L-70")
@pytest.mark.parametrize("target", LANGUAGES)
def test_a_rewrite_in_any_other_language_is_a_mismatch(target: str) -> None:
    passed = [text for text, other in FOREIGN if other == target and verdict_on(text, target).ok]
    assert passed == []


@pytest.mark.contract("A-81")
def test_a_verdict_names_the_versions_that_made_it() -> None:
    for text in ("A kind word for you and me.", "You are an idiot about this."):
        verdict = verdict_on(text)
        assert (verdict.eval_version, verdict.lexicon_version) == (EVAL_VERSION, LEXICON_VERSION)
