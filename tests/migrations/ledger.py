"""The line of a made-up application: a module of its own, as commands that are told of it import nothing else."""

from pathlib import Path
from typing import Final

from penstock.store.lines import Line

LEDGER: Final = Line("ledger", Path(__file__).parent / "line" / "versions", "ledger")
