"""One part of a changelist as a question: all of it fenced as data, and none of it among the instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.apps.review.critic.answers import SCHEMA
from penstock.apps.review.critic.prompts import prompt
from penstock.contract.calls import Request

if TYPE_CHECKING:
    from penstock.apps.review.cutting import Part
    from penstock.apps.review.models import Facts
    from penstock.contract.calls import Route

MOST_TOKENS: Final = 16_000  # of an answer: fifty findings, and what a model thinks before it writes them
_BREAKS: Final = dict.fromkeys(map(ord, "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), " ")  # a line stays one line


def request_of(facts: Facts, part: Part, route: Route) -> Request:
    """The question about *part*; the same part gives the same bytes, so that a retry asks nothing new.

    The title is as untrusted as the code, so it stands inside the fence too.
    Who wrote the change is no business of the critic's.
    """
    chosen = prompt(route.prompt_version)
    head = (f"title: {' '.join(facts.title.split())}", f"part: {part.number} of {part.of}", "")
    return Request(
        route,
        chosen.instructions,
        chosen.fence.around("\n".join((*head, part.text.translate(_BREAKS)))),
        schema=SCHEMA,
        schema_name="review_findings",
        max_output_tokens=MOST_TOKENS,
    )
