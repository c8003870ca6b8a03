"""Settings that are JSON, or name the file that holds it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from penstock.contract.errors import SettingsInvalid

LARGEST: Final = 1_000_000  # bytes of a file


def json_of(source: str, what: str) -> object:
    """What *source* says, as text or as the path of a file. A refusal begins with *what* and repeats no value.

    A member that stands twice in one object is refused: JSON would keep the
    last without a word.
    """
    text, problem = _text(source, what), "is no JSON"
    try:
        return json.loads(text, object_pairs_hook=_once)
    except _Twice as twice:
        problem = str(twice)
    except (ValueError, RecursionError):
        pass
    raise SettingsInvalid(f"{what} {problem}")


class _Twice(ValueError):
    pass


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _Twice(f"has the member {name[:40]!r} twice in one object")
        found[name] = value
    return found


def _text(source: str, what: str) -> str:
    if source.lstrip().startswith("{"):
        return source
    try:
        path = Path(source)
        if path.stat().st_size <= LARGEST:
            return path.read_text()
    except (OSError, ValueError):  # ValueError: a NUL in the path, or bytes that are no UTF-8
        pass
    raise SettingsInvalid(f"{what} must be a readable JSON file of at most 1 MB, or the JSON itself")
