"""The data files are whole, and a wrong one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.apps.rewrite.classifier import languages, rulebook
from penstock.apps.rewrite.classifier.rulebook import GROUPS, parsed, rulebooks
from penstock.apps.rewrite.classifier.text import folded, words
from penstock.contract.errors import SettingsInvalid


@pytest.mark.parametrize("language", languages.DEFAULT)
def test_every_one_of_the_ten_languages_has_terms_for_every_label(language: str) -> None:
    for group, labels in GROUPS.items():
        silent = {"other", "unclear"}
        assert set(rulebooks()[language].groups[group]) == set(labels) - silent


def test_a_term_may_have_several_words_and_a_star() -> None:
    book = parsed("xx.json", file(topics={"noise": ["keep it down", "loud*", "*musik"]}))

    assert book.hits("topics", folded("Keep it DOWN, the loudness of Tanzmusik!")) == {"noise": 3}
    assert book.hits("topics", folded("keep down, aloud, musikal")) == {}


def test_where_no_spaces_are_set_a_term_is_found_anywhere() -> None:
    book = parsed("xx.json", file(match="substring", topics={"pets": ["犬"]}))

    assert book.hits("topics", folded("あなたの犬がうるさい")) == {"pets": 1}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"topics": {"politics": ["x"]}}, "politics"),
        ({"safety": {"personal_data": ["x"]}}, "personal_data"),
        ({"rules": {}}, "rules"),
        ({"topics": {"noise": ["*"]}}, "empty term"),
        ({"topics": {"noise": [" !! "]}}, "empty term"),
    ],
)
def test_a_file_with_something_that_is_not_known_is_refused(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsInvalid, match=named):
        parsed("xx.json", file(**wrong))


def test_the_version_names_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rulebook.data_version()
    changed = {**rulebook._files(), "en.json": b"{}"}
    monkeypatch.setattr(rulebook, "_files", lambda: changed)

    assert rulebook.data_version.__wrapped__() != before
    assert before.startswith(rulebook.data("manifest.json")["version"])


def test_folding_keeps_what_makes_a_word_and_drops_what_hasty_writers_leave_out() -> None:
    assert folded("Ça  VA, l\u2019Été?") == "ca va l ete"
    assert folded("सफ़ाई") == folded("सफाई")
    assert folded("が") != folded("か")
    assert folded("\uff26\uff35\uff2c\uff2c Straße") == "full strasse"


def test_words_are_what_is_left_when_the_noise_is_gone() -> None:
    assert words("Nooooo!! it's @anna's 2 plates… www.example.com 😀") == ["Noo", "it's", "s", "plates"]
    assert words("❤️ 1️⃣ \ud800 \x00") == []


def file(**members: Any) -> dict[str, Any]:
    return {"language": "xx", "match": "words", **members}
