"""One rewrite against everything that it must be (A-43, A-94): all failures are found, none stops the search."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.apps.rewrite.evaluation.folding import read
from penstock.apps.rewrite.evaluation.language import language_details
from penstock.apps.rewrite.evaluation.lexicon import LEXICON_VERSION, lexicons
from penstock.apps.rewrite.evaluation.matching import Terms
from penstock.apps.rewrite.evaluation.texts import text_details
from penstock.apps.rewrite.evaluation.verdict import Detail, Evaluation, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.apps.rewrite.evaluation.language import Detect
    from penstock.apps.rewrite.models import PreferencesV1, RewriteRequestV1, RewriteResponseV1


def evaluate_rewrite(
    response: RewriteResponseV1, request: RewriteRequestV1, *, detect: Detect | None = None
) -> Evaluation:
    """The verdict on *response*: its text, its language, its words, and those its recipient does not want.

    A text that is empty or broken is not looked at further. *detect* stands in
    for the classifier's detector.
    """
    details = list(text_details(response.rewritten_text))
    if not {Detail.EMPTY, Detail.NO_WORDS} & set(details):
        details += _locale(response, request, detect)
        details += _lexicon(response.rewritten_text, request.target_locale)
    details += _wishes(response.rewritten_text, request.preferences)
    return verdict(details, LEXICON_VERSION)


def _locale(response: RewriteResponseV1, request: RewriteRequestV1, detect: Detect | None) -> Iterator[Detail]:
    if response.output_locale != request.target_locale:
        yield Detail.LOCALE_DECLARED
    yield from language_details(
        response.rewritten_text, request.target_locale, detect or detector(request.target_locale)
    )


def _lexicon(text: str, target: str) -> Iterator[Detail]:
    reading = read(text)
    for lexicon in lexicons(target):
        if lexicon.blocked.found_in(reading, lexicon.allowed):
            yield Detail.BLOCKED_TERM
        if lexicon.blame.found_in(reading, lexicon.allowed):
            yield Detail.BLAME_PHRASE


def _wishes(text: str, preferences: PreferencesV1) -> Iterator[Detail]:
    """The recipient's own words, in whatever language; nothing excuses them."""
    if preferences.blocked_terms and Terms.of(preferences.blocked_terms).found_in(read(text)):
        yield Detail.RECIPIENT_TERM


def detector(target: str) -> Detect | None:
    """The classifier's detector, with *target* among its languages; None if it has no model of that one."""
    from penstock.apps.rewrite.classifier import detect, languages  # the models are large, and an import is not free

    usual = languages.chosen(None)
    if target in usual:
        return detect
    return partial(detect, languages=(*usual, target)) if target in languages.known() else None
