"""Locales and lanes: pure rules, so every test is a table or a property."""

from __future__ import annotations

import string
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from penstock.apps.rewrite.locales import lane_of, normalized, source_locale, target_locale
from penstock.apps.rewrite.models import ClassifierResultV1, Confidence, KnownLocale, Lane

LANGUAGES = ["en", "es", "de", "fr", "pt", "it", "nl", "ja", "zh", "hi", "fil"]
NOTHING_SAID = [None, "", "  ", "und", "UND", "und-Latn", "unknown", "mul", "zxx", "mis"]
GARBAGE = [
    "x", "1", "-", "--", "*", "C", "POSIX", "English", "xx", "zz-DE", "xyz", "qaa", "qtz-DE", "x-klingon", "en US",
    "en,de", "en-US,en;q=0.9", "en\x00", "e\x00n", "日本語", "\uff45\uff4e", "\u202een", "😀", "en-" + "a" * 40,
    "e" * 10_000,
]  # fmt: skip
known_locale: TypeAdapter[str] = TypeAdapter(KnownLocale)

tags = st.one_of(st.none(), st.text(max_size=50), st.sampled_from([*NOTHING_SAID, *GARBAGE, *LANGUAGES, "es-MX"]))


def result(language: str | None, confidence: str) -> ClassifierResultV1:
    return ClassifierResultV1(
        classifier_version="test", detected_language=language, language_confidence=Confidence(confidence)
    )


@pytest.mark.contract("L-21", "C-38")
@pytest.mark.parametrize(
    ("tag", "language"),
    [
        ("en-US", "en"), ("en-NZ", "en"), ("es-MX", "es"), ("es-419", "es"), ("de_DE", "de"), ("de-DE", "de"),
        ("pt-BR", "pt"), ("zh-Hant", "zh"), ("zh-Hans-CN", "zh"), ("ZH_tw", "zh"), (" fr ", "fr"), ("EN", "en"),
        ("de_DE.UTF-8", "de"), ("de_DE@euro", "de"), ("en-US-u-ca-gregory", "en"), ("fil-PH", "fil"),
    ],
)  # fmt: skip
def test_a_tag_comes_down_to_its_primary_language_in_small_letters(tag: str, language: str) -> None:
    assert normalized(tag) == language


@pytest.mark.contract("L-21")
@pytest.mark.parametrize(
    ("one", "other"), [("iw", "he"), ("tl", "fil"), ("cmn-CN", "zh"), ("nb-NO", "no"), ("eng", "en"), ("ger", "deu")]
)
def test_two_codes_of_one_language_come_out_as_one(one: str, other: str) -> None:
    assert normalized(one) == normalized(other) is not None


@pytest.mark.parametrize("tag", ["es-nowhere", "es-ZZZZ-12345", "es-", "es--MX", "es-MX-MX"])
def test_only_the_language_of_a_tag_has_to_be_one(tag: str) -> None:
    assert normalized(tag) == "es"


@pytest.mark.contract("C-38")
@pytest.mark.parametrize("tag", NOTHING_SAID)
def test_a_tag_that_says_nothing_counts_as_missing(tag: str | None) -> None:
    assert normalized(tag) is None


@pytest.mark.parametrize("tag", GARBAGE)
def test_garbage_counts_as_missing(tag: str) -> None:
    assert normalized(tag) is None


@pytest.mark.contract("L-21")
def test_normalising_twice_changes_nothing_and_every_code_can_be_stored() -> None:
    codes = ("".join(letters) for length in (2, 3) for letters in product(string.ascii_lowercase, repeat=length))
    found = {code for code in map(normalized, codes) if code}

    assert len(found) > 5000
    assert all(normalized(code) == known_locale.validate_python(code) for code in found)


@pytest.mark.contract("L-23")
@pytest.mark.parametrize("confidence", ["medium", "high"])
@pytest.mark.parametrize("profile", ["de-DE", None, "garbage!"])
def test_a_language_that_the_classifier_is_sure_of_is_the_source(confidence: str, profile: str | None) -> None:
    assert source_locale(result("es", confidence), profile) == "es"


@pytest.mark.contract("L-23", "L-21")
def test_the_detected_language_is_normalised_too() -> None:
    assert source_locale(result("cmn", "high"), None) == "zh"


@pytest.mark.contract("L-24", "L-20")
@pytest.mark.parametrize(
    ("detected", "confidence"), [("es", "low"), (None, "low"), (None, "medium"), (None, "high"), ("xyz", "high")]
)
def test_without_a_sure_language_the_profile_has_the_word(detected: str | None, confidence: str) -> None:
    assert source_locale(result(detected, confidence), "pt-BR") == "pt"


@pytest.mark.contract("L-25", "C-38")
@pytest.mark.parametrize("profile", [*NOTHING_SAID, *GARBAGE])
def test_with_neither_the_source_is_english(profile: str | None) -> None:
    assert source_locale(result("es", "low"), profile) == "en"


@pytest.mark.contract("L-26", "C-38")
@pytest.mark.parametrize(
    ("recipient", "locale"),
    [("es-MX", "es"), ("ja", "ja"), ("zh_Hant_TW", "zh"), *((tag, "en") for tag in (*NOTHING_SAID, *GARBAGE))],
)
def test_the_target_is_the_language_of_the_recipient_or_english(recipient: str | None, locale: str) -> None:
    assert target_locale(recipient) == locale


@pytest.mark.contract("L-09", "L-27")
@given(tags, st.sampled_from([None, *LANGUAGES]), st.sampled_from(["low", "medium", "high"]), tags)
def test_no_input_makes_a_locale_unknown(
    profile: str | None, detected: str | None, confidence: str, recipient: str | None
) -> None:
    known_locale.validate_python(source_locale(result(detected, confidence), profile))
    known_locale.validate_python(target_locale(recipient))


@pytest.mark.contract("L-07", "L-28", "L-02", "L-03")
@given(st.sampled_from(LANGUAGES), st.sampled_from(LANGUAGES))
def test_the_lane_is_the_same_language_exactly_where_the_two_are_equal(source: str, target: str) -> None:
    assert lane_of(source, target) is (Lane.SAME_LANGUAGE if source == target else Lane.CROSS_LANGUAGE)


@pytest.mark.contract("L-02", "C-38")
def test_two_regions_of_one_language_are_one_language() -> None:
    assert lane_of(source_locale(result(None, "low"), "en-US"), target_locale("en-NZ")) is Lane.SAME_LANGUAGE


@pytest.mark.contract("L-75", "L-09")
@given(st.sampled_from([None, *LANGUAGES]), st.sampled_from(["low", "medium", "high"]), tags, tags)
def test_the_same_input_gives_the_same_locales_and_lane(
    detected: str | None, confidence: str, profile: str | None, recipient: str | None
) -> None:
    def decided() -> tuple[str, str, Lane]:
        source, target = source_locale(result(detected, confidence), profile), target_locale(recipient)
        return source, target, lane_of(source, target)

    assert decided() == decided()
