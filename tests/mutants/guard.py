"""What a guard is, and where they live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STORE: Final = "src/penstock/store"
SQL: Final = f"{STORE}/sql"
SCHEMA: Final = f"{STORE}/migrations/sql/0001_engine"
WALLS: Final = f"{STORE}/migrations/sql/0002_walls"
SUSPECTS: Final = f"{STORE}/migrations/sql/0003_suspects"
ENGINE: Final = "src/penstock/engine"
CONTRACT: Final = "src/penstock/contract"
FAULTS: Final = "tests/faults"


@dataclass(frozen=True)
class Guard:
    """One guard. *text* stands exactly once in *file*; with *without* in its place one of *tests* must fail."""

    name: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]
