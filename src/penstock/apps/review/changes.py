"""What a changelist changes: files, hunks, lines, and which lines the new side has. No repr shows a word of code."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from penstock.apps.review.diff_paths import quoted
from penstock.apps.review.models import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT: Final = " "
ADDED: Final = "+"
REMOVED: Final = "-"
ENDLESS: Final = "\\"  # says of the line above that no newline follows it


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk; *number* is its place in the new file, None where the new file does not have it."""

    mark: str
    text: str = field(repr=False)
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines that stand together. *old_start* and *new_start* are as git writes them: 0 before the first line."""

    old_start: int
    new_start: int
    lines: tuple[Line, ...] = field(repr=False)
    section: str = field(default="", repr=False)

    @property
    def head(self) -> str:
        """Where it begins and how many lines of each side it has."""
        old = sum(line.mark in {KEPT, REMOVED} for line in self.lines)
        new = sum(line.number is not None for line in self.lines)
        return f"@@ -{self.old_start},{old} +{self.new_start},{new} @@"

    @property
    def numbers(self) -> Iterator[int]:
        """The lines of the new file that it shows, changed or not."""
        return (line.number for line in self.lines if line.number is not None)

    @property
    def text(self) -> str:
        """The hunk as git writes it."""
        section = f" {self.section}" if self.section else ""
        return "".join([f"{self.head}{section}\n", *(f"{line.mark}{line.text}\n" for line in self.lines)])


@dataclass(frozen=True)
class FileChange:
    """A file that the critic can be shown. *old_path*: None for a new one; another name: it was renamed or copied."""

    path: str = field(repr=False)
    old_path: str | None = field(repr=False)
    hunks: tuple[Hunk, ...] = field(repr=False)
    copied: bool = False

    @cached_property
    def lines(self) -> frozenset[int]:
        """Every line of the new file that its hunks show."""
        return frozenset(number for hunk in self.hunks for number in hunk.numbers)

    @property
    def text(self) -> str:
        """The file's part of a diff; reading it gives this file again."""
        old = self.path if self.old_path is None else self.old_path
        before = "/dev/null" if self.old_path is None else _name("a/", old)
        head = [
            f"diff --git a/{old} b/{self.path}",
            *self._extended(old),
            f"--- {before}",
            f"+++ {_name('b/', self.path)}",
        ]
        return "".join([*(f"{line}\n" for line in head), *(hunk.text for hunk in self.hunks)])

    def _extended(self, old: str) -> list[str]:
        if self.old_path is None:
            return ["new file mode 100644"]
        word = "copy" if self.copied else "rename"
        return [] if old == self.path else [f"{word} from {quoted(old)}", f"{word} to {quoted(self.path)}"]


@dataclass(frozen=True)
class Changes:
    """A changelist, taken apart: what can be criticised, and what nobody is shown."""

    files: tuple[FileChange, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def text(self) -> str:
        """The files as one diff that PostgreSQL can store; those that are skipped are not in it."""
        return "".join(file.text for file in self.files)


def _name(prefix: str, path: str) -> str:
    """As git does it: a name with a space ends in a tab."""
    return f"{prefix}{path}\t" if " " in path else prefix + path
