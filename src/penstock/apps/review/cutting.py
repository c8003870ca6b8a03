"""Cutting a changelist into parts that fit into one question each.

A file that fits into a part is not torn; a larger one is cut between hunks,
and only a hunk that alone is too large is cut between lines. The same changes
and limits give the same parts in every process, so a part's number is enough
to know it again. Each line of the new side is in exactly one part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.apps.review.changes import KEPT, REMOVED, Changes, FileChange, Hunk, Line
from penstock.contract.errors import Failed
from penstock.contract.failures import FailureClass

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_TOKENS: Final = 500
_BYTES_PER_TOKEN: Final = 3  # code has three to four; a guess that errs on the safe side
_LONGEST_LINE: Final = 2_000  # bytes that are shown of it
_LONGEST_SECTION: Final = 80
_LONGEST_HEAD: Final = 60 + _LONGEST_SECTION
_GUTTER: Final = 13  # number, mark and newline


@dataclass(frozen=True, slots=True)
class Part:
    """What one question shows: a head per file, and every line behind its number in the new file.

    A removed line has no number. No line of code can begin where a head does.
    *lines*: by file, the lines of the new side that are shown; a finding that
    points anywhere else points outside.
    """

    number: int
    of: int
    text: str = field(repr=False)
    lines: Mapping[str, frozenset[int]] = field(repr=False)


def tokens_of(text: str) -> int:
    """How many tokens *text* is at most likely to be."""
    return -(-len(text.encode()) // _BYTES_PER_TOKEN)


def cut(changes: Changes, *, tokens: int, most: int) -> tuple[Part, ...]:
    """The parts of *changes*, of at most *tokens* each; more than *most* of them are `PAYLOAD_REJECTED`."""
    if tokens < LEAST_TOKENS:
        raise ValueError(f"a part has at least {LEAST_TOKENS} tokens, not {tokens}")
    packing = _Packing(tokens * _BYTES_PER_TOKEN)
    for file in changes.files:
        packing.add(file)
    parts = packing.parts
    if len(parts) > most:
        raise Failed(
            FailureClass.PAYLOAD_REJECTED,
            f"the changelist would take {len(parts)} questions, and {most} are allowed; "
            "split it, or raise PENSTOCK_REVIEW_MAX_PARTS",
        )
    return tuple(_part(number, len(parts), pieces) for number, pieces in enumerate(parts, 1))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A hunk as it is shown, or as much of one as fits."""

    file: FileChange
    text: str
    numbers: frozenset[int]

    @property
    def size(self) -> int:
        return len(self.text.encode())


class _Packing:
    """Parts that fill up, one after the other."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._left = 0
        self.parts: list[list[_Piece]] = []

    def add(self, file: FileChange) -> None:
        head = len(_head(file).encode())
        whole = [_shown(file, hunk) for hunk in file.hunks]
        if head + sum(piece.size for piece in whole) <= self._room:
            self._put(file, whole, head)
            return
        for hunk, piece in zip(file.hunks, whole, strict=True):
            small = head + piece.size <= self._room
            for fitting in [piece] if small else _slices(file, hunk, self._room - head):
                self._put(file, [fitting], head)

    def _put(self, file: FileChange, pieces: list[_Piece], head: int) -> None:
        """Behind what is there, or at the top of a new part."""
        size = sum(piece.size for piece in pieces)
        follows = bool(self.parts) and self.parts[-1][-1].file is file
        if size + (0 if follows else head) > self._left:
            self.parts.append([])
            self._left, follows = self._room, False
        self.parts[-1].extend(pieces)
        self._left -= size + (0 if follows else head)


def _part(number: int, of: int, pieces: Sequence[_Piece]) -> Part:
    text: list[str] = []
    lines: dict[str, frozenset[int]] = {}
    for piece in pieces:
        if piece.file.path not in lines:
            text.append(_head(piece.file))
        text.append(piece.text)
        lines[piece.file.path] = lines.get(piece.file.path, frozenset()) | piece.numbers
    return Part(number, of, "".join(text), lines)


def _head(file: FileChange) -> str:
    if file.old_path is None:
        return f"=== {file.path} (new file)\n"
    word = "copied" if file.copied else "renamed"
    return f"=== {file.path}\n" if file.old_path == file.path else f"=== {file.path}\n    {word} from {file.old_path}\n"


def _shown(file: FileChange, hunk: Hunk, longest: int = _LONGEST_LINE) -> _Piece:
    section = _clipped(hunk.section, _LONGEST_SECTION)
    head = f"{hunk.head} {section}".rstrip()
    text = "".join([f"{head}\n", *(_line(line, longest) for line in hunk.lines)])
    return _Piece(file, text, frozenset(hunk.numbers))


def _line(line: Line, longest: int) -> str:
    number = "" if line.number is None else str(line.number)
    return f"{number:>7} {line.mark}{_clipped(line.text, longest)}\n"


def _slices(file: FileChange, hunk: Hunk, room: int) -> Iterator[_Piece]:
    """*hunk* in pieces of at most *room* bytes; a line that is too long for that is shown as far as it fits."""
    longest = min(_LONGEST_LINE, room - _LONGEST_HEAD - _GUTTER)
    old, new = hunk.old_start, hunk.new_start
    for lines in _runs(hunk.lines, longest, room - _LONGEST_HEAD):
        first = next((line.number for line in lines if line.number is not None), None)
        yield _shown(file, Hunk(old, new if first is None else first, lines, hunk.section), longest)
        old += sum(line.mark in {KEPT, REMOVED} for line in lines)
        new += sum(line.number is not None for line in lines)


def _runs(lines: Iterable[Line], longest: int, room: int) -> Iterator[tuple[Line, ...]]:
    run: list[Line] = []
    left = room
    for line in lines:
        size = len(_line(line, longest).encode())
        if run and size > left:
            yield tuple(run)
            run, left = [], room
        run.append(line)
        left -= size
    yield tuple(run)


def _clipped(text: str, longest: int) -> str:
    """*text* if it has at most *longest* bytes, else its beginning and a word about the rest."""
    raw = text.encode()
    if len(raw) <= longest:
        return text
    note = f"… [{len(text)} characters]"
    return raw[: max(longest - len(note.encode()), 0)].decode("utf-8", "ignore") + note
