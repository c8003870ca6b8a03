"""A message as plain text, 78 columns wide; code is never wrapped."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from penstock.apps.review.messages.words import counted, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.apps.review.messages.summary import Summary
    from penstock.apps.review.models import Finding

WIDTH: Final = 78
BY_A_MODEL: Final = "Findings are written by a language model: check each one before you act on it."
NAMED: Final = "You get this because you were named as a recipient when this review was asked for."


def text_of(told: Summary) -> str:
    """The whole message; it ends with a newline."""
    return "\n".join([*_opening(told), *_findings(told), *_skipped(told), *_closing(told)]) + "\n"


def _opening(told: Summary) -> Iterator[str]:
    yield told.heading
    if told.title:
        yield from _wrapped(told.title)
    if told.author:
        yield f"by {told.author}"
    if told.url:
        yield told.url
    yield ""
    yield from _wrapped(told.verdict)


def _findings(told: Summary) -> Iterator[str]:
    for file, findings in told.by_file:
        yield ""
        yield file
        for finding in findings:
            yield from _finding(finding)


def _finding(finding: Finding) -> Iterator[str]:
    yield ""
    yield f"  line {finding.line}: {finding.severity.upper()}"
    for line in lines_of(finding.message):
        yield from _wrapped(line, indent="    ")
    if finding.suggestion:
        yield "    suggestion:"
        for line in lines_of(finding.suggestion):
            yield f"    | {line}".rstrip()


def _skipped(told: Summary) -> Iterator[str]:
    if not told.skipped:
        return
    yield ""
    yield "Not looked at:"
    yield from (f"  {file}: {reason}" for file, reason in told.skipped)
    if told.skipped_more:
        yield f"  and {counted(told.skipped_more, 'more file')}"


def _closing(told: Summary) -> Iterator[str]:
    for aside in told.asides:
        yield ""
        yield from _wrapped(aside)
    yield ""
    yield "-- "  # mail programs know a signature by it
    yield from _wrapped(BY_A_MODEL)
    yield from _wrapped(NAMED)
    yield f"Review {told.review_id}"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
