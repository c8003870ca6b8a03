"""Reading a unified diff as git writes it, from anybody, without believing a word of it.

A hunk is as long as its head says, so no line of code is mistaken for a head.
What cannot be read, and what has nothing to show, is skipped by name with a
reason, and the rest is read all the same. Every number of a line that comes
out of here is a line of the new file, once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from penstock.apps.review import diff_paths
from penstock.apps.review.changes import ADDED, ENDLESS, KEPT, REMOVED, Changes, FileChange, Hunk, Line
from penstock.apps.review.models import Skipped
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass

LONGEST_PATH: Final = 400  # bytes; a name of that length leaves a part of the least size room for code
_SHOWN_NAME: Final = 200
_LINES: Final = "[0-9]{1,9}(?:,[0-9]{1,9})?"
_HUNK: Final = re.compile(rf"@{{2,}}(?P<old>(?: -{_LINES}){{1,64}}) \+(?P<new>{_LINES}) @{{2,}}(?: (?P<section>.*))?")
_STARTS: Final = ("diff --git ", "diff --cc ", "diff --combined ")
_SUBMODULE: Final = re.compile(r"(?:index|mode|new mode|old mode|new file mode|deleted file mode) .*\b160000\b.*")


def parse(raw: bytes) -> Changes:
    """Take *raw* apart. No change at all is `PAYLOAD_REJECTED`; bytes that are no diff are the source's fault."""
    changes = restore(raw.decode("utf-8", "replace"))
    if changes.files or changes.skipped:
        return changes
    if not raw.strip():
        raise Failed(FailureClass.PAYLOAD_REJECTED, "the changelist changes nothing")
    raise Failed(FailureClass.UPSTREAM_5XX, "the source answered with something that is no diff")


def restore(text: str) -> Changes:
    """The changes whose `text` this is; of no text there are none."""
    lines = text.replace("\x00", "�").split("\n")
    if not lines[-1]:
        lines.pop()
    files: dict[str, FileChange] = {}
    skipped: list[Skipped] = []
    for entry in _entries(_Cursor(lines)):
        path, reason = entry.path, entry.reason
        if reason is None and path in files:
            reason = "repeated"
        if reason is None:
            files[path] = FileChange(path, entry.old_path, tuple(entry.hunks), copied=entry.copied)
        else:
            skipped.append(Skipped(file=_shown(path), reason=reason))
    return Changes(tuple(files.values()), tuple(skipped))


@dataclass(slots=True)
class _Cursor:
    """A place in the lines."""

    lines: list[str]
    at: int = 0

    def peek(self) -> str | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def take(self) -> str | None:
        line = self.peek()
        self.at += 1
        return line

    @property
    def starts_a_file(self) -> bool:
        """Whether a file begins here, with git's own head or with the two names alone."""
        line = self.peek() or ""
        return line.startswith(_STARTS) or self.names_two_sides

    @property
    def names_two_sides(self) -> bool:
        after = self.lines[self.at + 1 : self.at + 3]
        return (
            (self.peek() or "").startswith("--- ")
            and len(after) == 2  # noqa: PLR2004 - the other name and a hunk
            and after[0].startswith("+++ ")
            and after[1].startswith("@@")
        )


@dataclass(slots=True)
class _Entry:
    """What the lines say of one file, before it is judged."""

    old: str | None = None
    new: str | None = None
    named: str = ""  # by the first line, for want of better
    added: bool = False
    deleted: bool = False
    binary: bool = False
    submodule: bool = False
    moved: bool = False
    copied: bool = False
    remoded: bool = False
    broken: bool = False
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def path(self) -> str:
        return self.new or self.old or self.named or "?"

    @property
    def old_path(self) -> str | None:
        return None if self.added else self.old or self.path

    @property
    def reason(self) -> str | None:
        """Why the critic is not shown this file; None: it is."""
        for fact, reason in (
            (self.submodule, "submodule"),
            (self.deleted, "deleted"),
            (self.binary, "binary"),
            (self.broken or not (self.new or self.old), "unreadable"),
            (any(_is_long(name) for name in (self.path, self.old_path or "")), "path_too_long"),
            (bool(self.hunks), None),
            (self.copied, "copied"),
            (self.moved, "renamed"),
            (self.added, "empty"),
            (self.remoded, "mode_only"),
        ):
            if fact:
                return reason
        return "nothing_shown"

    def hear(self, line: str) -> None:
        """Take in one line of the head."""
        if _SUBMODULE.fullmatch(line):
            self.submodule = True
        if line.startswith(("rename ", "copy ")):
            self._move(*line.split(" ", 2))
        elif line.startswith("--- "):
            self.old = diff_paths.sided(line[4:])
            self.added = self.added or self.old is None
        elif line.startswith("+++ "):
            self.new = diff_paths.sided(line[4:])
            self.deleted = self.deleted or self.new is None
        elif line.startswith(("Binary files", "GIT binary patch")):
            self.binary = True
        elif line.startswith("new file mode "):
            self.added = True
        elif line.startswith("deleted file mode "):
            self.deleted = True
        elif line.startswith(("old mode ", "new mode ", "mode ")):
            self.remoded = True

    def _move(self, word: str, way: str, name: str = "") -> None:
        if way == "from":
            self.old = diff_paths.plain(name)
        elif way == "to":
            self.new = diff_paths.plain(name)
            self.moved, self.copied = word == "rename", word == "copy"

    def add(self, hunk: Hunk | None) -> None:
        """One more hunk, which must stand below those before it; one without a change shows nothing new."""
        last = max((number for known in self.hunks[-1:] for number in known.numbers), default=0)
        numbers = list(hunk.numbers) if hunk else []
        if hunk is None or (numbers and numbers[0] <= last):
            self.broken = True
        elif any(line.mark in {ADDED, REMOVED} for line in hunk.lines):
            self.hunks.append(hunk)


def _entries(cursor: _Cursor) -> Iterator[_Entry]:
    """Every file, whatever stands before, between and after."""
    while cursor.peek() is not None:
        if cursor.starts_a_file:
            yield _entry(cursor)
        else:
            cursor.take()


def _entry(cursor: _Cursor) -> _Entry:
    entry = _Entry()
    if not cursor.names_two_sides:
        _name(entry, cursor.take() or "")
    below = False  # the head, where a line names no side any more
    while (line := cursor.peek()) is not None and not (line.startswith(_STARTS) or (below and cursor.names_two_sides)):
        cursor.take()
        found = _HUNK.fullmatch(line.rstrip("\r")) if line.startswith("@@") else None
        below = below or found is not None
        if found:
            entry.add(_hunk(cursor, found))
        elif not below:
            entry.hear(line.rstrip("\r"))
    return entry


def _name(entry: _Entry, line: str) -> None:
    """The names of the first line; lines below it that name a side say it better."""
    _, kind, names = line.rstrip("\r").split(" ", 2)
    entry.named = diff_paths.plain(names)
    if kind == "--git":
        entry.old, entry.new = diff_paths.both(names) or (None, None)
    else:
        entry.old = entry.new = entry.named


def _hunk(cursor: _Cursor, head: re.Match[str]) -> Hunk | None:
    """The hunk below *head*, against the first parent where there are several; None if it is not what *head* says."""
    olds = [_range(part[1:]) for part in head["old"].split()]
    start, size = _range(head["new"])
    left = [count for _, count in olds]
    number, end = start, start + size
    lines: list[Line] = []
    while number < end or any(left) or (cursor.peek() or "").startswith(ENDLESS):
        line = cursor.take()
        if line is None:
            return None
        if line.startswith(ENDLESS):
            lines.append(Line(ENDLESS, line[1:]))
            continue
        marks, text = line[: len(left)].ljust(len(left)), line[len(left) :]
        gone = REMOVED in marks
        if set(marks) - ({REMOVED, KEPT} if gone else {ADDED, KEPT}) or (number == end and not gone):
            return None
        left = [count - (mark == (REMOVED if gone else KEPT)) for count, mark in zip(left, marks, strict=True)]
        if min(left) < 0:
            return None
        if not gone or marks[0] == REMOVED:
            lines.append(Line(marks[0], text, None if gone else number))
        number += not gone
    section = (head["section"] or "").strip()
    return Hunk(olds[0][0], start, tuple(lines), section) if start or not size else None


def _range(text: str) -> tuple[int, int]:
    start, _, count = text.partition(",")
    return int(start), int(count or 1)


def _is_long(path: str) -> bool:
    return len(path.encode()) > LONGEST_PATH


def _shown(path: str) -> str:
    return path if len(path) <= _SHOWN_NAME else f"{path[: _SHOWN_NAME - 1]}…"
