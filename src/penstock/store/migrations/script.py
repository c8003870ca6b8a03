"""SQL scripts as the migrations run them: read from a folder, sent whole, or cut into statements for a script."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent / "sql"
_CREATED = re.compile(r"^create ((?:function|view|trigger) [\w.]+)", re.MULTILINE)
# A dollar-quoted body, a quoted string, a comment, or the semicolon that ends a statement.
_TOKEN = re.compile(r"\$(\w*)\$.*?\$\1\$|'(?:[^']|'')*'|--[^\n]*|;", re.DOTALL)


def run(*names: str, folder: Path = FOLDER) -> None:
    """Execute the files *names* of *folder*, online or offline.

    An application passes the folder beside its own versions.
    """
    for name in names:
        _run((folder / name).read_text())


def _run(script: str) -> None:
    if not op.get_context().as_sql:
        _send(script)
        return
    for statement in statements(script):
        # text() would read `:name` as a parameter; nothing in the files is one.
        op.execute(sa.text(statement.replace(":", r"\:")))


def restore(name: str, *objects: str, folder: Path = FOLDER) -> None:
    """Make *objects*, such as `function penstock.cancel`, as the file *name* of an earlier version has them.

    For the way down: a version that replaced them does not carry a copy.
    """
    written = list(statements((folder / name).read_text()))
    made = {match[1]: statement for statement in written if (match := _CREATED.search(statement))}
    again = [_CREATED.sub(r"create or replace \1", made[wanted], count=1) for wanted in objects]
    _run(";\n".join(again))


def _send(script: str) -> None:
    """Execute *script* with one message to the server, in the transaction that is under way.

    A migration holds locks that everybody waits for: with three messages for
    each of hundreds of statements, a server far away would hold them for long.
    """
    connection = op.get_bind()
    adapted: Any = connection.connection.dbapi_connection
    try:
        adapted.run_async(lambda driver: driver.execute(script))
    except Exception as error:
        if adapted.driver_connection.is_closed():
            connection.invalidate(error)  # else SQLAlchemy tries to roll back, and tells of that instead
        raise


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
