"""Parts fit their budget, and every line of the new side is in exactly one of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Failed, FailureClass
from penstock.apps.review import cutting
from penstock.apps.review.changes import Changes, FileChange, Hunk, Line
from penstock.apps.review.cutting import Part, cut, tokens_of
from penstock.contract.classify import classify

ROOMY = 10_000


def added(path: str, *hunks: tuple[int, int], width: int = 20) -> FileChange:
    """A file with hunks of added lines, each (first line, how many)."""
    return FileChange(
        path,
        path,
        tuple(
            Hunk(start - 1, start, tuple(Line("+", "x" * width, number) for number in range(start, start + size)))
            for start, size in hunks
        ),
    )


def pieces(parts: tuple[Part, ...]) -> Counter[tuple[str, int]]:
    return Counter((path, number) for part in parts for path, numbers in part.lines.items() for number in numbers)


def test_a_small_changelist_is_one_part_with_a_number_before_each_line() -> None:
    hunk = Hunk(7, 7, (Line(" ", "kept", 7), Line("-", "gone"), Line("+", "come", 8)), "def f():")
    changes = Changes((FileChange("new.py", "old.py", (hunk,)), added("b.py", (1, 1), width=3)))
    (part,) = cut(changes, tokens=ROOMY, most=1)
    assert part.text == (
        "=== new.py\n    renamed from old.py\n@@ -7,2 +7,2 @@ def f():\n"
        "      7  kept\n        -gone\n      8 +come\n"
        "=== b.py\n@@ -0,0 +1,1 @@\n      1 +xxx\n"
    )
    assert (part.number, part.of) == (1, 1)
    assert part.lines == {"new.py": {7, 8}, "b.py": {1}}


def test_a_file_that_fits_into_a_part_is_not_torn() -> None:
    files = tuple(added(name, (1, 10), (100, 10), width=30) for name in "abc")
    parts = cut(Changes(files), tokens=500, most=9)
    assert [sorted(part.lines) for part in parts] == [["a"], ["b"], ["c"]]


def test_a_file_that_does_not_fit_is_cut_between_hunks() -> None:
    parts = cut(Changes((added("a", (1, 20), (50, 20), (90, 20), width=30),)), tokens=500, most=9)
    assert [min(part.lines["a"]) for part in parts] == [1, 50, 90]
    assert all(part.text.startswith("=== a\n@@ ") for part in parts)


def test_a_hunk_that_alone_is_too_large_is_cut_between_lines_with_heads_that_hold() -> None:
    lines = tuple(Line(*row) for number in range(5, 105) for row in (("-", "o" * 20, None), ("+", "n" * 20, number)))
    parts = cut(Changes((FileChange("a", "a", (Hunk(5, 5, lines),)),)), tokens=500, most=99)
    assert len(parts) > 1
    old, new = 5, 5
    for part in parts:
        head = part.text.splitlines()[1]
        gone = sum(line[8:9] == "-" for line in part.text.splitlines()[2:])
        assert head == f"@@ -{old},{gone} +{new},{len(part.lines['a'])} @@"
        old, new = old + gone, new + len(part.lines["a"])
    assert (old, new) == (105, 105)


def test_a_line_that_alone_is_too_large_is_shown_as_far_as_it_fits() -> None:
    parts = cut(Changes((added("min.js", (1, 2), width=1_000_000),)), tokens=500, most=2)
    assert pieces(parts) == {("min.js", 1): 1, ("min.js", 2): 1}
    assert all("[1000000 characters]" in part.text for part in parts)
    assert all(tokens_of(part.text) <= 500 for part in parts)


def test_no_line_of_code_begins_where_a_head_does() -> None:
    hunk = Hunk(0, 1, (Line("+", "=== other.py", 1), Line("+", "@@ -1 +1 @@", 2)))
    (part,) = cut(Changes((FileChange("a", None, (hunk,)),)), tokens=ROOMY, most=1)
    heads = [line for line in part.text.splitlines() if not line.startswith("  ")]
    assert heads == ["=== a (new file)", "@@ -0,0 +1,2 @@"]


def test_nothing_to_show_is_no_part() -> None:
    assert cut(Changes(()), tokens=500, most=1) == ()


@pytest.mark.contract("E-06")
def test_more_parts_than_allowed_are_refused_for_good() -> None:
    with pytest.raises(Failed, match="2 questions, and 1 are allowed") as refused:
        cut(Changes((added("a", (1, 20), (50, 20), width=30),)), tokens=500, most=1)
    assert refused.value.error_class is FailureClass.PAYLOAD_REJECTED
    assert not classify(refused.value).retryable


def test_a_budget_too_small_for_a_name_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least 500"):
        cut(Changes(()), tokens=499, most=1)


texts = st.one_of(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30),
    st.sampled_from(["ä" * 900, "x" * 5_000, "𝄞" * 400, "\r"]),
)
rows = st.lists(st.tuples(st.sampled_from(" +-"), texts), min_size=1, max_size=30)
names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=90)


@st.composite
def hunks(draw: st.DrawFn) -> tuple[Hunk, ...]:
    found, number = [], 0
    for _ in range(draw(st.integers(1, 4))):
        start = number = number + draw(st.integers(1, 10**8))
        lines = []
        for mark, text in draw(rows):
            lines.append(Line(mark, text, None if mark == "-" else number))
            number += mark != "-"
        found.append(Hunk(start, start, tuple(lines), draw(texts)))
    return tuple(found)


@st.composite
def changes_of(draw: st.DrawFn) -> Changes:
    paths = draw(st.lists(names, max_size=4, unique=True))
    return Changes(tuple(FileChange(path, draw(st.one_of(st.none(), names)), draw(hunks())) for path in paths))


@given(changes_of(), st.integers(cutting.LEAST_TOKENS, 3_000))
@settings(max_examples=30)
def test_every_line_of_the_new_side_is_in_exactly_one_part_and_every_part_in_its_budget(
    changes: Changes, tokens: int
) -> None:
    parts = cut(changes, tokens=tokens, most=10**6)
    shown = Counter((file.path, number) for file in changes.files for hunk in file.hunks for number in hunk.numbers)
    assert pieces(parts) == shown
    assert max(shown.values(), default=1) == 1
    assert all(tokens_of(part.text) <= tokens for part in parts)
    assert [(part.number, part.of) for part in parts] == [(number, len(parts)) for number in range(1, len(parts) + 1)]
    assert parts == cut(changes, tokens=tokens, most=10**6)


@given(changes_of(), st.integers(cutting.LEAST_TOKENS, 3_000))
@settings(max_examples=30)
def test_a_hunk_is_cut_only_if_it_alone_exceeds_the_budget(changes: Changes, tokens: int) -> None:
    parts = cut(changes, tokens=tokens, most=10**6)
    for file in changes.files:
        for hunk in file.hunks:
            alone = cut(Changes((FileChange(file.path, file.old_path, (hunk,)),)), tokens=tokens, most=10**6)
            holding = [part for part in parts if part.lines.get(file.path, frozenset()) & set(hunk.numbers)]
            assert len(holding) <= 1 or sum(part.text.count("\n@@ ") for part in alone) > 1
