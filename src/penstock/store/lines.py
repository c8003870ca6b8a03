"""Lines of migrations: which there are and how far each goes, without Alembic, which no worker should carry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from penstock.contract.errors import MigrationFailed

GROUP: Final = "penstock.migrations"
_REVISION: Final = re.compile(r"^revision\b.*=\s*[\"'](\w+)[\"']", re.MULTILINE)


@dataclass(frozen=True)
class Line:
    """One history of versions, with a version table of its own in *schema*."""

    name: str
    versions: Path
    schema: str


ENGINE: Final = Line("engine", Path(__file__).parent / "migrations" / "versions", "penstock")


def lines() -> tuple[Line, ...]:
    """The engine's line, then those that installed applications bring, by name."""
    found = (point.load() for point in entry_points(group=GROUP))
    return (ENGINE, *sorted(found, key=lambda line: line.name))


@cache
def newest(line: Line = ENGINE) -> str:
    """The newest version of *line* that this code brings: its files are `v<number>_<name>.py`, in one row."""
    files = sorted(line.versions.glob("v*_*.py"))
    revision = _REVISION.search(files[-1].read_text()) if files else None
    if revision is None:
        raise MigrationFailed(f"the line {line.name} holds no migrations; install its package again")
    return revision[1]
