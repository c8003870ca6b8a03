"""The rule for the language of a text, case by case."""

from __future__ import annotations

import pytest

from penstock.apps.rewrite.evaluation import evaluate_rewrite
from penstock.apps.rewrite.evaluation.evaluate import detector
from penstock.apps.rewrite.evaluation.scripts import scripts_of, weights
from penstock.apps.rewrite.models import Confidence, RewriteResponseV1
from tests.apps.rewrite.evaluation.support import Found, a_request, a_response, finds, verdict_on

SENTENCE = "Could we please talk about the dishes tonight?"  # 38 letters
LONG = f"{SENTENCE[:-1]} and about the bathroom, too?"


@pytest.mark.contract("A-31", "A-49", "L-48")
def test_a_declared_locale_that_is_not_the_target_is_a_mismatch_by_itself() -> None:
    response = a_response(SENTENCE, "fr")
    verdict = evaluate_rewrite(response, a_request(source="de", target="en"), detect=finds("en"))
    assert isinstance(response, RewriteResponseV1)
    assert verdict.detail == ("LOCALE_DECLARED",)


@pytest.mark.contract("C-41")
@pytest.mark.parametrize(
    ("text", "confidence", "refused"),
    [
        (SENTENCE, "high", True),
        (SENTENCE, "medium", True),
        (SENTENCE, "low", False),
        ("Ja, danke dir!", "high", True),
        ("Ja, danke dir!", "medium", False),
        ("Danke!", "high", False),
    ],
)
def test_another_language_counts_by_confidence_and_length(text: str, confidence: str, refused: bool) -> None:
    verdict = verdict_on(text, detect=finds("de", confidence))
    assert verdict.detail == (("LOCALE_DETECTED",) if refused else ())


def test_a_text_too_short_to_tell_passes() -> None:
    assert verdict_on("Merci beaucoup", detect=finds(None, "low")).ok
    assert verdict_on("OK!", "de").ok


@pytest.mark.parametrize(("found", "target"), [("pt", "es"), ("es", "it"), ("da", "nb"), ("af", "nl"), ("sk", "cs")])
@pytest.mark.parametrize(
    ("text", "confidence", "refused"),
    [(SENTENCE, "high", False), (LONG, "high", True), (SENTENCE, "medium", False), (LONG, "medium", True)],
)
def test_a_close_relative_of_the_target_takes_more_text(
    found: str, target: str, text: str, confidence: str, refused: bool
) -> None:
    assert verdict_on(text, target, detect=finds(found, confidence)).ok is not refused


@pytest.mark.parametrize(("found", "target"), [("nb", "no"), ("nn", "no"), ("tl", "fil")])
def test_two_names_of_one_language_are_the_same(found: str, target: str) -> None:
    assert verdict_on(LONG, target, detect=finds(found)).ok


@pytest.mark.contract("L-48")
@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("OK", "ja"),
        ("Thanks a lot, see you tonight", "ja"),
        ("Kya hum aaj baat kar sakte hain", "hi"),
        ("Спасибо", "en"),
        ("谢谢你的理解和帮助。今晚我们可以一起洗碗吗", "ja"),
        ("ありがとうございます。今夜話せますか", "zh"),
        ("今夜台所掃除可能時間確認願います", "zh"),
        ("ありがとう", "ko"),
        ("Could we talk tonight? お願いします、皿を洗ってください", "en"),
    ],
)
def test_a_script_that_contradicts_the_target_is_a_mismatch_at_any_length(text: str, target: str) -> None:
    assert verdict_on(text, target, detect=finds(target)).detail == ("LOCALE_SCRIPT",)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("Netflixのパスワードを変えてもいいですか", "ja"),
        ("了解", "ja"),
        ("我们可以用WhatsApp聊吗", "zh"),
        ("Хвала ти, можемо ли да причамо?", "sr"),
        ("Hvala ti, možemo li da pričamo?", "sr"),
        ("क्या हम WiFi का बिल बाँट सकते हैं?", "hi"),
        ("Anything at all", "gsw"),
        ("Let's get ラーメン tonight, shall we?", "en"),
    ],
)
def test_a_few_letters_of_another_script_are_no_contradiction(text: str, target: str) -> None:
    assert verdict_on(text, target, detect=finds(target)).ok


@pytest.mark.contract("L-31", "L-53")
def test_a_translation_left_beside_the_rewrite_is_a_mismatch() -> None:
    spanish = (
        "Me siento cansada cuando la cocina queda sucia por la noche y tengo que cocinar. ¿Podemos lavar los platos"
    )
    text = f"{spanish} juntos esta noche, y también el lunes y el martes?\n({LONG})"

    assert verdict_on(text, "es").detail == ("LOCALE_PART",)
    assert verdict_on(text.partition("\n")[0], "es").ok


def test_a_part_counts_only_when_it_is_long_sure_and_no_close_relative() -> None:
    def by_sentence(confidence: str, language: str) -> tuple[str, ...]:
        def detect(text: str) -> Found:
            whole = "\n" in text
            return Found("es", Confidence.HIGH) if whole else Found(language, Confidence(confidence))

        return verdict_on(f"{LONG}\n{LONG}", "es", detect=detect).detail

    assert by_sentence("high", "en") == ("LOCALE_PART",)
    assert by_sentence("medium", "en") == by_sentence("high", "pt") == by_sentence("high", "es") == ()


def test_a_short_foreign_phrase_in_a_rewrite_is_fine() -> None:
    assert verdict_on("Let's share the food budget, c'est la vie! Could we talk about it tonight?").ok


def test_addresses_mentions_and_numbers_are_not_looked_at() -> None:
    seen: list[str] = []

    def detect(text: str) -> Found:
        seen.append(text)
        return Found("en", Confidence.HIGH)

    verdict_on("See https://beispiel.de/abwasch or ask @Jürgen, me@example.com, 20:15", detect=detect)
    assert not any(word in seen[0] for word in ("beispiel", "Jürgen", "example", "20"))


@pytest.mark.parametrize(
    ("text", "target", "ok"),
    [
        ("Kan vi tale om opvasken i aften, og om at holde badeværelset tørt efter bad?", "da", True),
        ("Could we please talk about the dishes tonight, and about the bathroom?", "da", False),
        ("Kan vi snakke om oppvasken i kveld, og om å holde badet tørt etter dusjen?", "nb", True),
        ("Czy możemy dziś wieczorem porozmawiać o zmywaniu i o łazience?", "pl", True),
        ("Können wir heute Abend bitte über den Abwasch und das Bad sprechen?", "pl", False),
        ("Whatever this is, nobody here has a model of it.", "ceb", True),
        ("Давай поговорим сегодня вечером про посуду.", "ceb", False),
    ],
)
def test_a_language_outside_the_ten_is_judged_as_far_as_there_are_models(text: str, target: str, ok: bool) -> None:
    assert verdict_on(text, target).ok is ok


def test_the_detector_is_asked_about_the_target_too() -> None:
    assert detector("en") is not None
    danish = detector("da")
    assert danish is not None
    assert danish("Kan vi tale om opvasken i aften, hvis du har tid?").language == "da"
    assert detector("ceb") is None


def test_scripts_are_weighed_by_what_a_sign_says() -> None:
    assert weights("ab が 漢 1 !") == {"LATIN": 2, "HIRAGANA": 2, "CJK": 2}
    assert weights("ﾊﾞｶ") == {"KATAKANA": 4}
    assert scripts_of("ja") == {"CJK", "HIRAGANA", "KATAKANA"}
    assert scripts_of("gsw") == frozenset()
