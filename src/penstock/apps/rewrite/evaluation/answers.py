"""From what a model answered to a RewriteResponseV1: the text is the model's, all the rest is ours (L-75)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from penstock.apps.rewrite.evaluation.verdict import CLASSES, Detail, refusal
from penstock.apps.rewrite.locales import normalized
from penstock.apps.rewrite.models import RewriteAnswer, RewriteResponseV1

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.apps.rewrite.models import RewriteRequestV1, RoutingDecisionV1

_DETAILS: Final[Mapping[tuple[str, str], Detail]] = {
    ("rewritten_text", "string_too_short"): Detail.EMPTY,
    ("rewritten_text", "string_too_long"): Detail.TOO_LONG,
}


def response_of(answer_data: Any, request: RewriteRequestV1, decision: RoutingDecisionV1) -> RewriteResponseV1:
    """The response that *answer_data* makes; raises `Failed` where it makes none.

    A missing or extra member, a wrong type, an empty or overlong text are
    `SCHEMA_INVALID`; a locale other than the target, or no locale at all, is
    `LOCALE_MISMATCH` (C-41). Strength and versions are those of the request
    and the route, whatever the model says. Nothing of the answer is in the
    error, nor in what led to it.
    """
    answer, detail = _answer(answer_data)
    if answer is None:
        raise refusal(CLASSES[detail], (detail,))
    if normalized(answer.output_locale) != request.target_locale:
        raise refusal(CLASSES[Detail.LOCALE_DECLARED], (Detail.LOCALE_DECLARED,))
    return RewriteResponseV1(
        rewritten_text=answer.rewritten_text,
        output_locale=request.target_locale,
        rewrite_strength=request.rewrite_strength,
        prompt_version=decision.prompt_version,
        policy_version=decision.policy_version,
    )


def _answer(data: Any) -> tuple[RewriteAnswer | None, Detail]:
    """The answer, or why it is none; raised by the caller, so that no exception here is its cause."""
    try:
        return RewriteAnswer.model_validate(data, strict=True), Detail.NOT_AN_ANSWER
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]
    place = str(first["loc"][0]) if first["loc"] else ""
    return None, _DETAILS.get((place, first["type"]), Detail.NOT_AN_ANSWER)
