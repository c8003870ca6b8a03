"""A message as HTML for mail programs: styles beside the elements, no script, no picture, nothing fetched.

Every word that is not of this file goes through `_said`, which escapes it.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from penstock.apps.review.messages.plain import BY_A_MODEL, NAMED
from penstock.apps.review.messages.words import counted, lines_of
from penstock.apps.review.models import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.apps.review.messages.summary import Summary
    from penstock.apps.review.models import Finding

COLOURS: Final = {  # white text on each can be read: a contrast of 4.5 or more
    Severity.CRITICAL: "#b3261e",
    Severity.MAJOR: "#a14f00",
    Severity.MINOR: "#1f5fa8",
    Severity.NOTE: "#5f6368",
}
_BODY: Final = "margin:0 auto;padding:16px;max-width:720px;font:16px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif"
_CODE: Final = "font-family:ui-monospace,SFMono-Regular,Consolas,monospace;font-size:14px"
_QUIET: Final = "color:#5f6368;font-size:14px"
_HEAD: Final = (
    '<meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light">'
)


def html_of(told: Summary) -> str:
    """The whole document."""
    body = "\n".join([*_opening(told), *_findings(told), *_skipped(told), *_closing(told)])
    return (
        f'<!doctype html>\n<html lang="en"><head>{_HEAD}<title>{_said(told.subject)}</title></head>\n'
        f'<body style="{_BODY}">\n{body}\n</body></html>\n'
    )


def _said(text: str) -> str:
    return escape(text, quote=True)


def _opening(told: Summary) -> Iterator[str]:
    yield f'<p style="{_QUIET}">{_said(told.heading)}</p>'
    if told.title:
        yield f'<h1 style="font-size:22px;line-height:1.3;margin:0 0 4px">{_said(told.title)}</h1>'
    if told.author:
        yield f'<p style="{_QUIET};margin:0">by {_said(told.author)}</p>'
    if told.url:
        yield f'<p style="margin:0"><a href="{_said(told.url)}">Open the change</a></p>'
    yield f"<p><strong>{_said(told.verdict)}</strong></p>"


def _findings(told: Summary) -> Iterator[str]:
    for file, findings in told.by_file:
        yield f'<h2 style="{_CODE};margin:24px 0 8px;word-break:break-all">{_said(file)}</h2>'
        for finding in findings:
            yield _finding(finding)


def _finding(finding: Finding) -> str:
    colour = COLOURS[finding.severity]
    badge = f"background:{colour};color:#fff;border-radius:4px;padding:1px 8px;font-size:13px"
    message = "<br>".join(map(_said, lines_of(finding.message)))
    return (
        f'<div style="border-left:4px solid {colour};padding:4px 12px;margin:0 0 16px">'
        f'<p style="margin:0"><span style="{badge}">{finding.severity}</span> line {finding.line}</p>'
        f'<p style="margin:4px 0">{message}</p>{_suggestion(finding.suggestion)}</div>'
    )


def _suggestion(suggestion: str | None) -> str:
    if not suggestion:
        return ""
    code = "\n".join(map(_said, lines_of(suggestion)))
    return (
        f'<p style="{_QUIET};margin:4px 0 0">Suggestion</p>'
        f'<pre style="{_CODE};background:#f3f4f6;color:#1f2328;padding:8px;margin:0;overflow-x:auto">{code}</pre>'
    )


def _skipped(told: Summary) -> Iterator[str]:
    if not told.skipped:
        return
    items = [f"<li><code>{_said(file)}</code>: {_said(reason)}</li>" for file, reason in told.skipped]
    if told.skipped_more:
        items.append(f"<li>and {counted(told.skipped_more, 'more file')}</li>")
    yield f'<h2 style="font-size:16px;margin:24px 0 4px">Not looked at</h2>\n<ul style="margin:0">{"".join(items)}</ul>'


def _closing(told: Summary) -> Iterator[str]:
    yield from (f"<p>{_said(aside)}</p>" for aside in told.asides)
    yield '<hr style="border:0;border-top:1px solid #d0d7de;margin:24px 0 8px">'
    yield f'<p style="{_QUIET}">{_said(BY_A_MODEL)}<br>{_said(NAMED)}<br>Review {told.review_id}</p>'
