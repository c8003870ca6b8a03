"""The line `review`: the schema of the review application, beside the engine's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from penstock.store.lines import Line

LINE: Final = Line("review", Path(__file__).parent / "versions", "review")
