"""The names of files in a diff: quoted as C does it, prefixed, and made fit to be shown."""

from __future__ import annotations

import re
from typing import Final

NOWHERE: Final = "/dev/null"
_LONGEST: Final = 20_000  # no system has longer names, and a pattern has its price
_PREFIX: Final = re.compile(r"[abciow12]/")
_ESCAPE: Final = re.compile(r'\\([0-3][0-7]{2}|[abtnvfr"\\])')
_LETTERS: Final = dict(zip('abtnvfr"\\', '\a\b\t\n\v\f\r"\\', strict=True))
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_TWO: Final = re.compile(rf"({_QUOTED}|[^\"].*?) ({_QUOTED})|({_QUOTED}) (.+)")


def plain(name: str) -> str:
    """*name* without quotes and escapes, and without a character that moves a cursor or hides (each becomes �)."""
    if len(name) > 1 and name.startswith('"') and name.endswith('"'):
        name = _unquoted(name[1:-1])
    return name if name.isprintable() else "".join(mark if mark.isprintable() else "�" for mark in name)


def quoted(path: str) -> str:
    """*path* as `plain` gives it back, where nothing stands before it."""
    return path if not path.startswith('"') else '"' + path.replace("\\", r"\\").replace('"', r"\"") + '"'


def sided(name: str) -> str | None:
    """The path behind `--- ` or `+++ `, up to a tab; None for a side that has no file."""
    path = plain(name.partition("\t")[0])
    return None if path == NOWHERE else _bare(path)


def both(names: str) -> tuple[str, str] | None:
    """The two paths behind `diff --git `, where they can be told apart: quoted, or twice the same."""
    pair = _TWO.fullmatch(names) if len(names) < _LONGEST else None
    if pair:
        old, new = (plain(name) for name in pair.groups() if name is not None)
        return _bare(old), _bare(new)
    half = len(names) // 2
    old, new = plain(names[:half]), plain(names[half + 1 :])
    same = names[half : half + 1] == " " and _bare(old) == _bare(new)
    return (_bare(old), _bare(new)) if same and old else None


def _bare(path: str) -> str:
    return path[2:] if _PREFIX.match(path) else path


def _unquoted(name: str) -> str:
    """Octal escapes are bytes, and only together they are a character."""
    raw = _ESCAPE.sub(_escaped, name).encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace").replace("\x00", "�")


def _escaped(found: re.Match[str]) -> str:
    value = found[1]
    if value in _LETTERS:
        return _LETTERS[value]
    return bytes([int(value, 8)]).decode("utf-8", "surrogateescape")
