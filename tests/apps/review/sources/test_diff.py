"""A diff from anybody is read: what can be shown is shown, the rest is named with a reason, nothing is believed."""

from __future__ import annotations

import difflib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Failed, FailureClass
from penstock.apps.review import diff
from penstock.apps.review.changes import Changes
from penstock.contract.classify import classify

HEAD = b"diff --git a/f b/f\nindex 1..2 100644\n--- a/f\n+++ b/f\n"
COMBINED = b"""diff --cc f
index 1,2..3
--- a/f
+++ b/f
@@@ -1,4 -1,3 +1,4 @@@ def f():
  kept
- from the first
 -from the second
++merged
 +of the first
  last
"""


def reasons(raw: bytes) -> dict[str, str]:
    changes = diff.parse(raw)
    assert changes.files == ()
    return {skipped.file: skipped.reason for skipped in changes.skipped}


def marks(changes: Changes) -> list[tuple[str, str, int | None]]:
    return [(line.mark, line.text, line.number) for file in changes.files for hunk in file.hunks for line in hunk.lines]


def test_lines_carry_their_number_in_the_new_file() -> None:
    changes = diff.parse(HEAD + b"@@ -3,3 +5,3 @@ def f():\n kept\n-gone\n+come\n kept\n@@ -20 +22,2 @@\n a\n+b\n")
    assert marks(changes) == [
        (" ", "kept", 5), ("-", "gone", None), ("+", "come", 6), (" ", "kept", 7), (" ", "a", 22), ("+", "b", 23),
    ]  # fmt: skip
    assert changes.files[0].lines == {5, 6, 7, 22, 23}
    assert changes.files[0].hunks[0].section == "def f():"


def test_code_that_looks_like_a_head_is_code() -> None:
    code = b"@@ -1,3 +1,4 @@\n diff --git a/x b/x\n--- a/x\n+++ b/x\n+@@ -1 +1 @@\n kept\n"
    changes = diff.parse(HEAD + code)
    assert [file.path for file in changes.files] == ["f"]
    assert [line[1] for line in marks(changes)] == ["diff --git a/x b/x", "-- a/x", "++ b/x", "@@ -1 +1 @@", "kept"]


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"deleted file mode 100644\nindex 1..0\n--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n", "deleted"),
        (b"index 1..2 100644\nBinary files a/f and b/f differ\n", "binary"),
        (b"index 1..2 100644\nGIT binary patch\nliteral 3\nKcmZQ%U|?VY\n\nliteral 0\nHcmV?d00001\n\n", "binary"),
        (b"new file mode 100644\nindex 0..e69de29\n", "empty"),
        (b"old mode 100644\nnew mode 100755\n", "mode_only"),
        (
            b"index 1..2 160000\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-Subproject commit 1\n+Subproject commit 2\n",
            "submodule",
        ),
        (b"index 1..2 100644\n--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n kept\n", "unreadable"),
        (b"index 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n@@ -1 +1 @@\n-a\n+b\n", "unreadable"),
        (b"index 1..2 100644\n--- a/f\n+++ b/f\n@@ -1 +0,1 @@\n-a\n+b\n", "unreadable"),
    ],
)
def test_a_file_without_anything_to_show_is_skipped_with_its_reason(head: bytes, reason: str) -> None:
    assert reasons(b"diff --git a/f b/f\n" + head) == {"f": reason}


@pytest.mark.parametrize(("word", "reason"), [(b"rename", "renamed"), (b"copy", "copied")])
def test_a_new_name_alone_is_skipped_and_with_a_change_is_shown(word: bytes, reason: str) -> None:
    names = b"diff --git a/old name b/new\nsimilarity index 90%%\n%b from old name\n%b to new\n" % (word, word)
    assert reasons(names) == {"new": reason}
    (file,) = diff.parse(names + b"--- a/old name\t\n+++ b/new\n@@ -1 +1 @@\n-a\n+b\n").files
    assert (file.path, file.old_path, file.copied) == ("new", "old name", reason == "copied")


@pytest.mark.parametrize(
    ("quoted", "path"),
    [
        (rb'"b/\303\244\tb\"c\\d"', 'ä�b"c\\d'),  # a tab moves the cursor
        (rb'"b/\377"', "�"),
        (b'"b/\\303\\244 b"\t', "ä b"),
        (b"b/with space\t", "with space"),
        ("b/\u202egnp.exe".encode(), "�gnp.exe"),  # so does an override of the direction
    ],
)
def test_names_are_unquoted_and_safe_to_show(quoted: bytes, path: str) -> None:
    old = quoted.replace(b"b/", b"a/", 1)
    raw = b"diff --git %b %b\n--- %b\n+++ %b\n@@ -1 +1 @@\n-a\n+b\n" % (old, quoted, old, quoted)
    assert [file.path for file in diff.parse(raw).files] == [path]


def test_a_name_that_says_nothing_but_its_mode_is_found_in_the_first_line() -> None:
    assert reasons(b'diff --git "a/\\303\\244" "b/\\303\\244"\nold mode 100644\nnew mode 100755\n') == {
        "ä": "mode_only"
    }
    assert reasons(b"diff --git a/a b b/a b\nold mode 100644\nnew mode 100755\n") == {"a b": "mode_only"}


def test_a_name_that_would_fill_a_part_is_skipped() -> None:
    (skipped,) = diff.parse(HEAD.replace(b"/f", b"/" + b"d" * 401) + b"@@ -1 +1 @@\n-a\n+b\n").skipped
    assert (skipped.reason, len(skipped.file)) == ("path_too_long", 200)


def test_a_merge_is_read_against_its_first_parent() -> None:
    changes = diff.parse(COMBINED)
    assert marks(changes) == [
        (" ", "kept", 1), ("-", "from the first", None), ("+", "merged", 2), (" ", "of the first", 3), (" ", "last", 4),
    ]  # fmt: skip


def test_ends_of_lines_and_bytes_that_are_no_text_are_kept_as_far_as_a_database_can() -> None:
    raw = HEAD + b"@@ -1,2 +1,2 @@\n \n-a\r\n+\xff\x00\r\n\\ No newline at end of file\n"
    changes = diff.parse(raw)
    assert marks(changes)[1:] == [("-", "a\r", None), ("+", "��\r", 2), ("\\", " No newline at end of file", None)]
    assert "\x00" not in changes.text


def test_a_blank_line_that_lost_its_space_is_still_a_line() -> None:
    assert marks(diff.parse(HEAD + b"@@ -1,2 +1,3 @@\n\n+a\n b\n"))[0] == (" ", "", 1)


def test_a_mail_around_a_diff_and_a_diff_without_git_are_read() -> None:
    mail = b"From 1 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\nwhy\n---\n f | 2 +-\n\n"
    plain = b"--- f\t2026-01-01\n+++ f\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n"
    changes = diff.parse(mail + plain + plain.replace(b" f", b" g") + b"-- \n2.39.5\n\n")
    assert [file.path for file in changes.files] == ["f", "g"]


def test_the_same_file_twice_is_read_once() -> None:
    once = HEAD + b"@@ -1 +1 @@\n-a\n+b\n"
    changes = diff.parse(once + once)
    assert (len(changes.files), [skipped.reason for skipped in changes.skipped]) == (1, ["repeated"])


@pytest.mark.contract("E-06")
def test_a_changelist_that_changes_nothing_is_refused_for_good() -> None:
    with pytest.raises(Failed, match="changes nothing") as refused:
        diff.parse(b"\n")
    assert refused.value.error_class is FailureClass.PAYLOAD_REJECTED
    assert not classify(refused.value).retryable


@pytest.mark.contract("E-04")
def test_an_answer_that_is_no_diff_is_the_fault_of_the_source() -> None:
    with pytest.raises(Failed) as refused:
        diff.parse(b"<html>It is us, not you</html>")
    assert classify(refused.value).retryable


def test_no_repr_shows_code() -> None:
    assert "secret" not in repr(diff.parse(HEAD + b"@@ -1 +1 @@ secret\n-secret\n+secret\n"))


line = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12)
content = st.lists(line, max_size=25)


@given(content, content)
@settings(max_examples=80)
def test_every_line_of_the_new_side_stands_where_its_number_says(old: list[str], new: list[str]) -> None:
    written = "".join(f"{entry}\n" for entry in difflib.unified_diff(old, new, "a/f", "b/f", lineterm=""))
    if not written:
        return
    changes = diff.restore(written)
    shown = [(text, number) for _, text, number in marks(changes) if number is not None]
    assert all(new[number - 1].replace("\x00", "�") == text for text, number in shown)
    added = {number for mark, _, number in marks(changes) if mark == "+"}
    assert added == {
        index + 1
        for tag, _, _, begin, end in difflib.SequenceMatcher(None, old, new).get_opcodes()
        if tag != "equal"
        for index in range(begin, end)
    }


LINES = (
    "diff --git a/f b/f", 'diff --git "a/\\"q\\"" "b/\\"q\\""', "diff --cc g", "--- a/f", "+++ b/f", "--- /dev/null",
    'rename from "\\"q\\""', 'rename to "\\"r"', "new file mode 100644", "old mode 1", "@@ -1 +1 @@", " a", "+b", "-c",
    "@@ -1,2 +1,3 @@ x", "@@@ -1 -1 +1,2 @@@", "++", "--", "\\ No newline", "", "+++", "Binary files", "@@ -0,0 +1 @@",
)  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=30))
@settings(max_examples=80)
def test_whatever_comes_is_read_and_reading_the_text_again_gives_the_same(lines: list[str]) -> None:
    changes = diff.restore("\n".join(lines))
    assert diff.restore(changes.text) == Changes(changes.files)
    for file in changes.files:
        numbers = [number for hunk in file.hunks for number in hunk.numbers]
        assert numbers == sorted(set(numbers))


@given(st.binary(max_size=300))
@settings(max_examples=60)
def test_bytes_of_any_kind_raise_nothing_but_a_verdict(raw: bytes) -> None:
    for around in (raw, HEAD + b"@@ -1 +1 @@\n" + raw):
        with suppress(Failed):
            assert "\x00" not in diff.parse(around).text
