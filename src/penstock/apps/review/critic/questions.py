"""One part of a changelist as a question: each line with its number, all of it fenced as data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.apps.review.critic.answers import SCHEMA
from penstock.apps.review.critic.prompts import prompt
from penstock.contract.calls import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.apps.review.cutting import Part
    from penstock.apps.review.models import Facts
    from penstock.contract.calls import Route

MOST_TOKENS: Final = 16_000  # of an answer: fifty findings, and what a model thinks before it writes them
_HUNK: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_BREAKS: Final = dict.fromkeys(map(ord, "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), " ")  # a line stays one line
_WIDTH: Final = 6


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
        chosen.fence.around("\n".join((*head, *numbered(part.text)))),
        schema=SCHEMA,
        schema_name="review_findings",
        max_output_tokens=MOST_TOKENS,
    )


def numbered(diff: str) -> Iterator[str]:
    """Each line of a unified diff, with its number where the new side has it.

    The counts in a hunk's head tell its lines from the heads of files: an
    added line may well begin with `++ b/`. No line of a hunk begins with `@@`.
    """
    old = new = line = 0
    for text in diff.translate(_BREAKS).removesuffix("\n").split("\n"):
        hunk = _HUNK.match(text)
        if hunk:
            old, line, new = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
            yield _plain(text)
        elif text[:1] == "+" and new > 0:
            yield f"{line:>{_WIDTH}} {text}"
            new, line = new - 1, line + 1
        elif text[:1] in {" ", ""} and old > 0 and new > 0:
            yield f"{line:>{_WIDTH}} {text}"
            old, new, line = old - 1, new - 1, line + 1
        else:
            old -= text[:1] == "-"
            yield _plain(text)


def _plain(text: str) -> str:
    return f"{'':>{_WIDTH}} {text}"
