"""What a message says, before it is put into any form: who, what, how many, in which order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final, Protocol

from penstock.apps.review.messages.words import counted, link, one_line
from penstock.apps.review.models import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from penstock.apps.review.models import Facts, Skipped

MOST_SHOWN: Final = 100  # findings, the gravest; nobody reads more, and a mail has to stay one
MOST_SKIPPED: Final = 50
LONGEST_TITLE: Final = 80  # in a subject, which the outcome has to fit into as well
LONGEST_PATH: Final = 300
REASONS: Final = {
    "binary": "binary",
    "too_large": "too large",
    "deleted": "deleted",
    "mode_only": "only its mode changed",
    "renamed": "only renamed",
    "unreadable": "no text that can be read",
}


class Head(Protocol):
    """What a message needs of a review's row."""

    @property
    def review_id(self) -> UUID:
        """Its id."""

    @property
    def changelist_id(self) -> str:
        """`<source>:<ref>`."""

    @property
    def review_version(self) -> int:
        """Which review of this changelist it is."""

    @property
    def label(self) -> str | None:
        """How whoever asked for it calls that version."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that a message says, in order and fit to be shown."""

    review_id: UUID
    changelist_id: str
    review_version: int
    label: str | None
    title: str = field(repr=False)
    author: str = field(repr=False)
    url: str | None = field(repr=False)
    counts: tuple[tuple[Severity, int], ...]  # of all findings, the gravest first
    files: int  # that have any
    findings: tuple[Finding, ...] = field(repr=False)  # that are shown
    more: int  # that are not
    skipped: tuple[tuple[str, str], ...] = field(repr=False)  # path and reason
    skipped_more: int
    dropped: int
    looked: bool

    @property
    def subject(self) -> str:
        """One line: where it comes from, what it is about, what came of it."""
        source, _, ref = self.changelist_id.partition(":")
        about = one_line(self.title, LONGEST_TITLE) or one_line(ref, LONGEST_TITLE)
        return f"[{source}] {about}{self._version}: {self.outcome}"

    @property
    def outcome(self) -> str:
        """How many of which severity."""
        if not self.counts:
            return "nothing found" if self.looked else "nothing to review"
        return ", ".join(f"{count} {severity}" for severity, count in self.counts)

    @property
    def verdict(self) -> str:
        """The same as a sentence."""
        if not self.looked:
            return "Nothing in this change can be reviewed as text, so the critic was not asked."
        if not self.counts:
            return "The critic has found nothing to object to."
        total = sum(count for _, count in self.counts)
        return f"{counted(total, 'finding')} in {counted(self.files, 'file')}: {self.outcome}."

    @property
    def by_file(self) -> list[tuple[str, list[Finding]]]:
        """The findings that are shown, under the path of their file."""
        groups = groupby(self.findings, key=lambda finding: finding.file)
        return [(one_line(file, LONGEST_PATH), list(group)) for file, group in groups]

    @property
    def heading(self) -> str:
        """Which review this is."""
        label = f" ({self.label})" if self.label else ""
        return f"Review of {self.changelist_id}, version {self.review_version}{label}"

    @property
    def asides(self) -> list[str]:
        """What was left out, so that nobody takes a short list for a whole one."""
        said = []
        if self.more:
            less = counted(self.more, "finding that is", "findings that are")
            said.append(f"{less} less grave than these: not shown here.")
        if self.dropped:
            remarks = counted(self.dropped, "remark was", "remarks were")
            said.append(f"{remarks} left out: not at a line of this change, or after the gravest fifty.")
        return said

    @property
    def _version(self) -> str:
        return f" (version {self.review_version})" if self.review_version > 1 else ""


def summary_of(
    review: Head, facts: Facts, findings: Iterable[Finding], skipped: Iterable[Skipped], dropped: int, *, parts: int
) -> Summary:
    """Put everything in its order: files by path, findings by line, the gravest of a line first."""
    found = sorted(findings, key=lambda finding: finding.place)
    left = sorted((one_line(each.file, LONGEST_PATH), _reason(each.reason)) for each in skipped)
    shown = _shown(found)
    return Summary(
        review_id=review.review_id,
        changelist_id=one_line(review.changelist_id, LONGEST_PATH),
        review_version=review.review_version,
        label=None if review.label is None else one_line(review.label, 50),
        title=one_line(facts.title, 500),
        author=one_line(facts.author, 200),
        url=link(facts.url),
        counts=_counts(found),
        files=len({finding.file for finding in found}),
        findings=shown,
        more=len(found) - len(shown),
        skipped=tuple(left[:MOST_SKIPPED]),
        skipped_more=max(0, len(left) - MOST_SKIPPED),
        dropped=dropped,
        looked=parts > 0,
    )


def _shown(found: Sequence[Finding]) -> tuple[Finding, ...]:
    if len(found) <= MOST_SHOWN:
        return tuple(found)
    gravest = sorted(found, key=lambda finding: finding.severity.rank)[:MOST_SHOWN]
    return tuple(sorted(gravest, key=lambda finding: finding.place))


def _counts(found: Iterable[Finding]) -> tuple[tuple[Severity, int], ...]:
    counter = Counter(finding.severity for finding in found)
    return tuple((severity, counter[severity]) for severity in Severity if counter[severity])


def _reason(word: str) -> str:
    return REASONS.get(word, one_line(word.replace("_", " "), 100))
