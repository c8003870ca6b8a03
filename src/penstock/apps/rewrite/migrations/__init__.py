"""The line `rewrite`: the schema of the rewrite application, beside the engine's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.store.lines import Line

LINE: Final = Line("rewrite", Path(__file__).parent / "versions", "rewrite")
