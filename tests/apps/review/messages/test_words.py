"""What a developer reads: findings by file and line, how many of which severity, and what nobody looked at."""

from __future__ import annotations

import pytest

from penstock.apps.review.messages.summary import MOST_SHOWN, MOST_SKIPPED
from penstock.apps.review.models import Facts, Severity, Skipped
from tests.apps.review.messages.support import Asked, finding, told

TEXT = """\
Review of shop:3f2a91c, version 1
Give every cart a mean
by Ada
https://git.example/shop/3f2a91c?a=1&b=2

3 findings in 2 files: 1 critical, 1 major, 1 note.

shop/api.py

  line 40: CRITICAL
    Anybody can read any cart. Anybody can read any cart. Anybody can read any
    cart. Anybody can read any cart.

shop/cart.py

  line 2: NOTE
    This import is not used.

  line 9: MAJOR
    An empty cart divides by zero.
    suggestion:
    | if not self.items:
    |     return 0

Not looked at:
  old.py: deleted
  web/logo.png: binary

2 remarks were left out: not at a line of this change, or after the gravest
fifty.

--\x20
Findings are written by a language model: check each one before you act on it.
You get this because you were named as a recipient when this review was asked
for.
Review 01957e2a-0000-7000-8000-000000000001
"""


def test_the_text_has_the_findings_by_file_and_line_and_tells_what_was_left_out() -> None:
    assert told().text == TEXT


def test_the_subject_counts_the_severities() -> None:
    assert told().subject == "[shop] Give every cart a mean: 1 critical, 1 major, 1 note"


def test_a_review_that_found_nothing_says_so() -> None:
    message = told(findings=(), skipped=(), dropped=0)
    assert message.subject == "[shop] Give every cart a mean: nothing found"
    assert "The critic has found nothing to object to." in message.text
    assert "left out" not in message.text
    assert "Not looked at" not in message.text + message.html


def test_a_change_without_text_is_not_said_to_be_faultless() -> None:
    message = told(findings=(), dropped=0, parts=0)
    assert message.subject.endswith(": nothing to review")
    assert "the critic was not asked" in message.text
    assert "web/logo.png: binary" in message.text
    assert "<code>web/logo.png</code>: binary" in message.html


def test_a_later_version_and_its_label_are_named() -> None:
    message = told(Asked(review_version=4, label="after the rebase"))
    assert "(version 4)" in message.subject
    assert message.text.startswith("Review of shop:3f2a91c, version 4 (after the rebase)\n")


def test_a_change_without_a_title_is_called_by_its_reference() -> None:
    assert told(facts=Facts()).subject.startswith("[shop] 3f2a91c: ")


def test_of_a_flood_the_gravest_are_shown_and_the_rest_is_counted() -> None:
    notes = [finding(line=number, severity=Severity.NOTE) for number in range(1, MOST_SHOWN + 1)]
    message = told(findings=[*notes, finding(line=5000, severity=Severity.CRITICAL)])
    assert "1 critical, 100 note" in message.subject
    assert "line 5000: CRITICAL" in message.text
    assert message.text.count(": NOTE\n") == message.html.count(">note</span>") == MOST_SHOWN - 1
    assert "1 finding that is less grave than these: not shown here." in message.text


def test_of_many_skipped_files_some_are_named_and_the_rest_is_counted() -> None:
    message = told(skipped=[Skipped(file=f"{number:03}.png", reason="binary") for number in range(MOST_SKIPPED + 2)])
    assert "049.png" in message.text
    assert "050.png" not in message.text
    assert "and 2 more files" in message.text
    assert "and 2 more files" in message.html


def test_data_is_the_same_for_a_program() -> None:
    message = told()
    assert (message.data["type"], message.data["timestamp"]) == ("review.completed", "2026-03-01T09:30:00+00:00")
    data = message.data["data"]
    assert isinstance(data, dict)
    assert data["counts"] == {"critical": 1, "major": 1, "note": 1}
    assert [(found["file"], found["line"]) for found in data["findings"]] == [
        ("shop/api.py", 40),
        ("shop/cart.py", 2),
        ("shop/cart.py", 9),
    ]
    assert data["skipped"] == [{"file": "old.py", "reason": "deleted"}, {"file": "web/logo.png", "reason": "binary"}]
    assert (data["findings_not_shown"], data["remarks_left_out"]) == (0, 2)


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", 'https://x.example/"onclick=', "ftp://x.example/", "https://x.example/a b", None]
)
def test_only_a_web_address_becomes_a_link(url: str | None) -> None:
    message = told(facts=Facts(url=url))
    assert "href" not in message.html
    assert "x.example" not in message.text


def test_no_repr_shows_what_was_found() -> None:
    message = repr(told())
    assert "cart" not in message
    assert "ada@example.org" not in message
