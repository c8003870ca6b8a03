"""The critic and what people are told: what others write stays data, and what is not in a change is not said of it."""

from __future__ import annotations

from typing import Final

from tests.mutants.guard import CONTRACT, Guard

REVIEW: Final = "src/penstock/apps/review"
FINDINGS: Final = "tests/apps/review/critic/test_findings.py"
QUESTIONS: Final = "tests/apps/review/critic/test_questions.py"
SAFETY: Final = "tests/apps/review/messages/test_safety.py"

GUARDS: Final = (
    Guard(
        "a finding points into its part",
        f"{REVIEW}/critic/answers.py",
        "or remark.line not in lines.get(file, ())",
        "or remark.line < 1",
        (f"{FINDINGS}::test_lines_of_another_file_or_of_none_are_dropped_and_counted",),
    ),
    Guard(
        "every line of a changelist is quoted",
        f"{CONTRACT}/untrusted.py",
        '"\\n".join(self.quote + line for line in self.lines(text))',
        '"\\n".join(self.lines(text))',
        (f"{QUESTIONS}::test_no_changelist_and_no_title_changes_the_instructions_or_leaves_the_fence",),
    ),
    Guard(
        "a changelist has no token of a turn",
        f"{CONTRACT}/untrusted.py",
        "return [self._harmless(line) for line in text.splitlines()]",
        "return [line for line in text.splitlines()]",
        (f"{QUESTIONS}::test_no_changelist_and_no_title_changes_the_instructions_or_leaves_the_fence",),
    ),
    Guard(
        "what others write is escaped",
        f"{REVIEW}/messages/markup.py",
        "return escape(text, quote=True)",
        "return text",
        (f"{SAFETY}::test_html_consists_of_our_elements_whatever_anybody_writes",),
    ),
    Guard(
        "a subject is one line",
        f"{REVIEW}/messages/words.py",
        'line = " ".join(_printable(text).split())',
        "line = text",
        (f"{SAFETY}::test_a_subject_is_one_header_that_ends_with_what_was_found",),
    ),
    Guard(
        "the order of rows has no part in a message",
        f"{REVIEW}/messages/summary.py",
        "found = sorted(findings, key=lambda finding: finding.place)",
        "found = list(findings)",
        (f"{SAFETY}::test_the_order_of_rows_has_no_part_in_a_message",),
    ),
)
