"""Text of others on its way into a message: no control character, no change of direction, one line where one is meant.

A title is written by whoever made the change, a path by whoever named a file,
a finding by a model. None of them may start a header, hide a line or turn the
order of characters around.
"""

from __future__ import annotations

import re
from typing import Final

ELLIPSIS: Final = "…"
_JOINERS: Final = "\u200c\u200d"  # some scripts and most composed emoji need them
_TAB: Final = "    "
_LINK: Final = re.compile(r"https?://[A-Za-z0-9\[][^\s\"'<>`\\\x00-\x20\x7f-\xa0]{0,900}")


def one_line(text: str, limit: int) -> str:
    """*text* as one line of at most *limit* printable characters."""
    line = " ".join(_printable(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + ELLIPSIS


def lines_of(text: str) -> list[str]:
    """*text* line by line, with its indentation."""
    return [_printable(line.replace("\t", _TAB)).rstrip() for line in text.splitlines()]


def link(url: str | None) -> str | None:
    """*url*, if a browser may be sent there: a web address, and nothing that ends an attribute."""
    return url if url is not None and url.isprintable() and _LINK.fullmatch(url) else None


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def _printable(text: str) -> str:
    """Whatever is not printable becomes a space: controls, line breaks of every kind, bidirectional marks."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character in _JOINERS else " " for character in text)
