"""The line `vault`: the schema of the vault, beside the engine's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.store.lines import Line

LINE: Final = Line("vault", Path(__file__).parent / "versions", "vault")
