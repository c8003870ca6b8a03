"""Whatever a title, a path or a finding says: the same bytes every time, no markup, no second header."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from email.message import EmailMessage
from email.policy import SMTP
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.apps.review.models import Facts, Finding, Severity, Skipped
from tests.apps.review.messages.composed import digests
from tests.apps.review.messages.support import Asked, finding, told

ROOT = Path(__file__).parents[4]
HOSTILE = "\"'></title></pre><script>alert(1)</script>\r\nBcc: all@example.org\u2028\u202e&amp;"
words = st.text(max_size=30) | st.sampled_from([HOSTILE, "<b>", "</div>", "&lt;", "--\n", "\r\n.\r\n", "\x00\x1b[2J"])
texts = words.filter(str.strip)
findings = st.builds(
    finding,
    file=st.sampled_from(["a.py", "b.py", HOSTILE]) | texts,
    line=st.integers(1, 9),
    severity=st.sampled_from(list(Severity)),
    message=texts,
    suggestion=st.none() | texts,
)
SAME_PLACE = [finding(suggestion=one) for one in ("use a set", None, "", "use a dict")]
skipped = st.builds(Skipped, file=texts, reason=words)
facts = st.builds(Facts, title=words, author=words, url=st.none() | words)


class Shape(HTMLParser):
    """What a document consists of, apart from its words."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.words = ""
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((f"{tag}/", tuple(name for name, _ in attrs)))

    def handle_comment(self, data: str) -> None:  # noqa: ARG002 - the parser's
        self.tags.append(("comment", ()))

    def handle_data(self, data: str) -> None:
        self.words += data


def digest(message: Any) -> str:
    told = [message.subject, message.text, message.html, json.dumps(message.data)]
    return hashlib.sha256("\0".join(told).encode()).hexdigest()


@given(
    found=st.lists(findings, max_size=6).flatmap(lambda made: st.tuples(st.just(made), st.permutations(made))),
    left=st.lists(skipped, max_size=4).flatmap(lambda made: st.tuples(st.just(made), st.permutations(made))),
    about=facts,
)
@example(found=(SAME_PLACE, SAME_PLACE[::-1]), left=([], []), about=Facts(title="T", author="A"))
def test_the_order_of_rows_has_no_part_in_a_message(
    found: tuple[list[Finding], list[Finding]], left: tuple[list[Skipped], list[Skipped]], about: Facts
) -> None:
    once = told(facts=about, findings=found[0], skipped=left[0])
    again = told(facts=about, findings=found[1], skipped=left[1])
    assert once == again
    assert digest(once) == digest(again)


@given(found=st.lists(findings, max_size=4), left=st.lists(skipped, max_size=3), about=facts)
@example(found=[finding(file=HOSTILE, message=HOSTILE, suggestion=HOSTILE)], left=[], about=Facts(title=HOSTILE))
def test_html_consists_of_our_elements_whatever_anybody_writes(
    found: list[Finding], left: list[Skipped], about: Facts
) -> None:
    names = {name: f"f{number}" for number, name in enumerate(sorted({each.file for each in found}))}
    tame = [_tame(each, names[each.file]) for each in found]
    shape = Shape(told(Asked(label="<i>"), about, found, skipped=left).html)
    plain = Shape(told(Asked(label="i"), _tame_facts(about), tame, skipped=[_tame_file(each) for each in left]).html)
    assert sorted(shape.tags) == sorted(plain.tags)
    assert all("&" not in each.message or "&" in shape.words for each in found)


def _tame(each: Finding, file: str) -> Finding:
    """The same lines, without a word of theirs."""
    message = "\n".join("x" for _ in each.message.splitlines())
    return each.model_copy(update={"file": file, "message": message, "suggestion": each.suggestion and "x"})


def _tame_facts(about: Facts) -> Facts:
    def tame(text: str) -> str:
        return "x" if any(character.isprintable() and not character.isspace() for character in text) else ""

    return Facts(title=tame(about.title), author=tame(about.author))


def _tame_file(each: Skipped) -> Skipped:
    return Skipped(file="x", reason="binary")


@given(title=words, ref=st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=240))
@example(title=HOSTILE, ref="1")
@example(title="t" * 500, ref="1")
def test_a_subject_is_one_header_that_ends_with_what_was_found(title: str, ref: str) -> None:
    subject = told(Asked(changelist_id=f"shop:{ref}", review_version=12), Facts(title=title)).subject
    assert len(subject.splitlines()) == 1
    assert len(subject) < 200
    assert subject.endswith(": 1 critical, 1 major, 1 note")
    mail = EmailMessage(policy=SMTP)
    mail["Subject"] = subject
    assert mail.as_bytes().count(b"\r\nBcc") == 0
    assert list(mail) == ["Subject"]


@given(found=st.lists(findings, min_size=1, max_size=3), about=facts)
def test_text_has_no_control_character_and_nothing_that_turns_it_around(found: list[Finding], about: Facts) -> None:
    text = told(facts=about, findings=found).text
    assert all(character.isprintable() or character in "\n\u200c\u200d" for character in text)


@pytest.mark.contract("N-10")
def test_another_process_writes_the_same_bytes_under_the_same_token_for_every_channel() -> None:
    there = subprocess.run(
        [sys.executable, "-m", "tests.apps.review.messages.composed"],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(there.stdout) == digests()
