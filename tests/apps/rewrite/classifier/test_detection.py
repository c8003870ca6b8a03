"""The language of short messages, and how honestly it is claimed."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.apps.rewrite.classifier import Detection, detect, languages, warm_up
from penstock.apps.rewrite.locales import source_locale
from penstock.apps.rewrite.models import ClassifierResultV1, Confidence
from penstock.contract.errors import SettingsInvalid
from tests.apps.rewrite.classifier.sets import is_sure, messages, score

TEN = languages.DEFAULT
CONFIGURED = languages.chosen(None)


def test_the_set_is_two_hundred_short_messages_in_at_least_ten_languages() -> None:
    given_ = messages("messages.json")
    counts = Counter(message.language for message in given_)

    assert len(given_) == len({message.text for message in given_}) == 200
    assert all(counts[language] >= 14 for language in TEN)
    assert all(len(message.text) <= 120 for message in given_)
    spaced = [message for message in given_ if message.language not in ("ja", "zh")]
    assert all(3 <= len(message.text.split()) <= 25 for message in spaced)


@pytest.mark.contract("L-23")
def test_of_the_messages_called_medium_or_high_95_percent_are_right_and_80_percent_are_called_so() -> None:
    result = score(messages("messages.json"))

    assert result.precision >= 0.95, result
    assert result.coverage >= 0.80, result


@pytest.mark.parametrize("language", TEN)
def test_no_single_language_is_left_behind(language: str) -> None:
    result = score([message for message in messages("messages.json") if message.language == language])

    assert result.precision >= 0.9, result
    assert result.coverage >= 0.8, result


def test_messages_that_were_written_after_the_bars_were_set_are_told_as_well() -> None:
    result = score([message for message in messages("held_out.json") if message.language in CONFIGURED])

    assert result.precision >= 0.95, result
    assert result.coverage >= 0.80, result


@pytest.mark.contract("L-20")
def test_a_language_without_a_model_is_hardly_ever_claimed_to_be_another_and_never_with_high_confidence() -> None:
    both = [*messages("messages.json"), *messages("held_out.json")]
    found = [detect(message.text) for message in both if message.language not in CONFIGURED]

    assert len(found) >= 20
    assert not any(detection.confidence is Confidence.HIGH for detection in found)
    assert sum(map(is_sure, found)) <= 2


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "\n", "\x00", "\x00\x00 \x00", "12:30", "1234 5678 !!!", "?!?!", "😀😀😀", "❤️ 👍🏽 👩‍👩‍👧", "1️⃣2️⃣",
        "https://example.com/the/dishes/are/dirty", "www.example.com/please-clean-the-kitchen", "anna@example.com",
        "@anna @ben #kitchen", "`please stop the noise`", "```\nthe code is not a language\n```", "\ud800", "...",
    ],
)  # fmt: skip
def test_a_text_without_words_has_no_language(text: str) -> None:
    assert detect(text) == Detection(None, Confidence.LOW)


@pytest.mark.contract("L-20")
@pytest.mark.parametrize(
    "text", ["stop it", "hello", "Zimmer kalt", "ok", "no way", "静か", "不在", "à toi", "lol lol"]
)
def test_one_or_two_words_are_never_more_than_a_guess(text: str) -> None:
    assert detect(text).confidence is Confidence.LOW


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("うるさいからやめて", "ja"), ("你又没洗碗", "zh"), ("請不要在走廊抽菸", "zh"), ("बर्तन धो दो ना", "hi"),
        ("조용히 좀 해 주세요", "ko"), ("冷蔵庫 掃除 至急", "ja"), ("κλείσε το παράθυρο", "el"),
        ("תסגור את החלון", "he"),
    ],
)  # fmt: skip
def test_a_script_decides_where_it_belongs_to_one_language(text: str, language: str) -> None:
    found = detect(text)

    assert found.language == language
    assert is_sure(found)


def test_a_script_of_no_configured_language_is_no_language() -> None:
    assert detect("조용히 좀 해 주세요", ["en", "de"]) == Detection(None, Confidence.LOW)


def test_persian_is_not_taken_for_arabic_although_the_script_is_the_same() -> None:
    assert not is_sure(detect("لطفا پنجره را ببند باران می‌آید"))


@pytest.mark.contract("L-23", "L-20")
@pytest.mark.parametrize(
    "text",
    [
        "The kitchen is a mess again. Bitte mach deine Pfannen sauber, danke.",
        "Sorry for the noise gestern Abend, ich mache heute sauber",
        "mañana no puedo pero I will clean it on sunday ok",
    ],
)
def test_half_and_half_is_low_so_that_the_profile_decides(text: str) -> None:
    found = detect(text)
    result = ClassifierResultV1(
        classifier_version="test", detected_language=found.language, language_confidence=found.confidence
    )

    assert found.confidence is Confidence.LOW
    assert source_locale(result, "nl-NL") == "nl"


@pytest.mark.parametrize(
    ("text", "language"), [("明天有deadline,请安静一点", "zh"), ("WiFi का bill अभी pending है, please पैसे भेज दो", "hi")]
)
def test_a_few_words_of_another_language_leave_the_main_one_standing(text: str, language: str) -> None:
    found = detect(text)

    assert found.language == language
    assert is_sure(found)


@pytest.mark.parametrize(
    "text",
    [
        "Je suis fatigué and I want to sleep, donc silence please my friends",
        "Ya te dije mil veces, clean the kitchen please, it is so dirty",
    ],
)
def test_a_mixture_with_a_clear_majority_is_medium_at_most(text: str) -> None:
    assert detect(text).confidence is not Confidence.HIGH


def test_what_is_no_language_does_not_disturb_it() -> None:
    bare = "bitte mach heute noch die Küche sauber"
    noisy = (
        f"@anna {bare} 😤😤 https://example.com/please/read/this/now `please_do_not(now)` anna.lee@example.com 12:30"
    )

    assert detect(noisy) == detect(bare)
    assert detect(bare).language == "de"


def test_hindi_in_latin_letters_is_hindi() -> None:
    assert detect("yaar please bartan dho liya karo").language == "hi"
    assert detect("yaar please bartan dho liya karo", ["en", "de"]).language != "hi"


@pytest.mark.parametrize("tags", [["en-US", "de_DE"], ["EN", "de", "de"]])
def test_languages_are_configured_by_any_tag(tags: list[str]) -> None:
    assert detect("kannst du bitte die Musik leiser machen", tags).language == "de"


def test_a_single_configured_language_is_found_or_nothing_is() -> None:
    assert detect("kannst du bitte die Musik leiser machen", ["de"]).language == "de"
    assert not is_sure(detect("could you please turn the music down now", ["de"]))


@pytest.mark.parametrize("tag", ["tlh", "garbage!", "", "unknown"])
def test_a_language_that_cannot_be_told_is_refused_with_the_choice(tag: str) -> None:
    with pytest.raises(SettingsInvalid, match="choose from"):
        detect("any text at all", ["en", tag])


@pytest.mark.parametrize("text", ["a" * 200_000, "the kitchen is dirty " * 20_000, "😀" * 100_000, "a.b@c" * 40_000])
def test_an_enormous_text_is_answered_by_its_beginning(text: str) -> None:
    assert detect(text) == detect(text[:2000])


@pytest.mark.contract("L-75")
@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_text_has_an_answer_and_always_the_same(text: str) -> None:
    found = detect(text)

    assert found == detect(text)
    assert found.language in {*CONFIGURED, None}
    assert found.language is not None or found.confidence is Confidence.LOW


def test_many_threads_share_one_detector_and_agree() -> None:
    given_ = [message.text for message in messages("messages.json")[:40]]
    alone = [detect(text) for text in given_]
    warm_up()
    before = languages.detector(CONFIGURED)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(detect, given_)) == alone
    assert languages.detector(CONFIGURED) is before
