"""The statements of the application: one file each under `sql/<noun>/<verb>.sql`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "sql"


@cache
def sql(name: str) -> str:
    """The text of `sql/<name>.sql`."""
    return (FOLDER / f"{name}.sql").read_text()
