"""Words: what is found however it is dressed up, and what is left alone."""

from __future__ import annotations

import time
import tomllib
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from penstock.apps.rewrite.evaluation.folding import bare, folded, read
from penstock.apps.rewrite.evaluation.lexicon import (
    FALLBACK,
    LEXICON_VERSION,
    LexiconFile,
    languages,
    lexicon,
    lexicons,
    parsed,
    version_of,
)
from penstock.apps.rewrite.evaluation.matching import Terms
from penstock.contract.failures import FailureClass
from tests.apps.rewrite.evaluation.support import LANGUAGES, finds, verdict_on, words_of

WORDS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))
OWN = [
    (own["term"], text, found)
    for own in WORDS["own"]
    for found in (True, False)
    for text in own["found" if found else "left"]
]
HARMLESS = [(language, text) for language, texts in WORDS["harmless"].items() for text in texts]
FILES = {
    name: (files("penstock.apps.rewrite.evaluation") / "lexicons" / f"{name}.toml").read_text("utf-8")
    for name in languages()
}


@pytest.mark.parametrize(("language", "text"), HARMLESS)
def test_a_harmless_text_that_holds_a_bad_word_is_left_alone(language: str, text: str) -> None:
    assert words_of(text, language) == ()


@pytest.mark.contract("A-43")
@pytest.mark.parametrize("word", WORDS["disguised"]["en"])
@pytest.mark.parametrize("target", ["en", "de", "sw"])
def test_a_bad_word_is_found_behind_its_disguise(word: str, target: str) -> None:
    assert words_of(f"Please wash up, {word}, tonight.", target) == ("BLOCKED_TERM",)


@pytest.mark.contract("A-43", "A-94")
@pytest.mark.parametrize(("term", "text", "found"), OWN)
def test_a_recipients_own_word_is_found_and_its_neighbours_are_not(term: str, text: str, found: bool) -> None:
    assert ("RECIPIENT_TERM" in verdict_on(text, terms=(term,), detect=finds("en")).detail) is found


@pytest.mark.contract("A-43", "A-62")
def test_a_recipients_own_word_is_a_lexicon_failure_in_any_language() -> None:
    for target in LANGUAGES:
        verdict = verdict_on("Müslikännchen", target, terms=("müslikännchen",), detect=finds(target))
        assert FailureClass.LEXICON_BLOCKED in verdict.failures
        assert "RECIPIENT_TERM" in verdict.detail


def test_nothing_excuses_a_recipients_own_word() -> None:
    assert words_of("You are always welcome.", terms=("you are always",)) == ("RECIPIENT_TERM",)


@pytest.mark.contract("A-82", "L-66")
def test_a_verdict_does_not_tell_which_word_it_was() -> None:
    verdict = verdict_on("Schnuckiputzi, you idiot.", terms=("Schnuckiputzi",), detect=finds("en"))

    assert not any(word in repr(verdict).lower() for word in ("schnuckiputzi", "idiot"))
    assert verdict.detail == ("BLOCKED_TERM", "RECIPIENT_TERM")


@pytest.mark.contract("A-43")
@pytest.mark.parametrize("language", sorted({*LANGUAGES, FALLBACK}))
def test_every_term_of_every_list_is_found(language: str) -> None:
    file = parsed(FILES[language])
    own, target = lexicon(language), "sw" if language == FALLBACK else language
    for code, terms in (("BLOCKED_TERM", file.blocked), ("BLAME_PHRASE", file.blame)):
        missed = [term for term in terms if code not in words_of(f"{term}.", target)]
        assert missed == []
    assert own.version == file.version


@pytest.mark.parametrize("language", languages())
def test_a_list_says_nothing_twice_and_allows_nothing_that_it_does_not_block(language: str) -> None:
    file = parsed(FILES[language])
    terms = [folded(term) for term in chain(file.blocked, file.blame)]
    blocked = Terms.of((*file.blocked, *file.blame))

    assert [term for term in terms if terms.count(term) > 1] == []
    assert [term for term in terms if bare(term) != term and bare(term) in terms] == []
    assert [term for term in file.allowed if not blocked.found_in(read(term))] == []
    assert [term for term in file.allowed if words_of(f"{term}.", language)] == []


def test_a_language_without_a_list_has_the_fallback_and_the_others_have_it_too() -> None:
    assert [found.language for found in lexicons("sw")] == ["fallback"]
    assert [found.language for found in lexicons("ja")] == ["ja", "fallback"]
    assert set(languages()) == {*LANGUAGES, FALLBACK}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_fallback_holds_no_harmless_word_of_a_language(language: str) -> None:
    fallback = {folded(term) for term in parsed(FILES[FALLBACK]).blocked}
    harmless = [text for name, text in HARMLESS if name == language]
    assert not any(fallback & set(read(text).bare) for text in harmless)


def test_no_phrase_reaches_across_the_end_of_a_sentence() -> None:
    assert words_of("It was as usual. You know that I like you.") == ()
    assert words_of("As usual, you left.") == ("BLAME_PHRASE",)


@pytest.mark.contract("A-81")
def test_the_version_of_the_lexicon_moves_with_every_word_and_every_file() -> None:
    assert version_of(FILES) == LEXICON_VERSION
    assert version_of(dict(reversed(FILES.items()))) == LEXICON_VERSION
    others = [
        {**FILES, "en": FILES["en"].replace('"moron"', '"maroon"')},
        {**FILES, "en": FILES["en"].replace('version = "1"', 'version = "2"')},
        {name: text for name, text in FILES.items() if name != "hi"},
        {**FILES, "sv": FILES["en"]},
    ]
    assert len({LEXICON_VERSION, *map(version_of, others)}) == 5


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('language = "en"', 'language = "English"'),
        ('version = "1"', "version = 1"),
        ('version = "1"', 'version = "new"'),
        ("blame = [", "blames = ["),
        ('"moron"', '""'),
        ("blocked = [", 'more = ["x"]\nblocked = ['),
    ],
)
def test_a_list_that_is_not_whole_is_refused_when_it_is_read(old: str, new: str) -> None:
    assert isinstance(parsed(FILES["en"]), LexiconFile)
    with pytest.raises(ValueError, match=r"\w"):
        parsed(FILES["en"].replace(old, new, 1))


def test_a_list_in_the_file_of_another_language_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.apps.rewrite.evaluation.lexicon.parsed", lambda text: parsed(FILES["de"]))
    with pytest.raises(ValueError, match="another language"):
        lexicon.__wrapped__("en")


@pytest.mark.parametrize("piece", ["a", "a ", "* ", "a*", "1!", "ばか", "you ", "a1", "...", "🙄"])
def test_the_longest_text_is_judged_in_a_moment(piece: str) -> None:
    words_of("warm up")
    begun = time.perf_counter()
    words_of((piece * 4000)[:4000], terms=tuple(f"term {number}" for number in range(100)))
    assert time.perf_counter() - begun < 2
