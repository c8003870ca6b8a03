"""SQL scripts as the migrations run them: read from a folder, cut into statements."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from alembic import op

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent / "sql"
# A dollar-quoted body, a quoted string, a comment, or the semicolon that ends a statement.
_TOKEN = re.compile(r"\$(\w*)\$.*?\$\1\$|'(?:[^']|'')*'|--[^\n]*|;", re.DOTALL)


def run(*names: str, folder: Path = FOLDER) -> None:
    """Execute the files *names* of *folder*, statement by statement, online or offline.

    An application passes the folder beside its own versions.
    """
    for name in names:
        for statement in statements((folder / name).read_text()):
            # text() would read `:name` as a parameter; nothing in the files is one.
            op.execute(sa.text(statement.replace(":", r"\:")))


def statements(script: str) -> Iterator[str]:
    """Yield the statements of *script*, comments before them included; the last one may lack its semicolon."""
    start = 0
    for token in _TOKEN.finditer(script):
        if token.group() == ";":
            yield script[start : token.start()].strip()
            start = token.end()
    rest = script[start:].strip()
    if re.sub(r"--[^\n]*", "", rest).strip():
        yield rest
