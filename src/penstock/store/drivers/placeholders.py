"""One statement, three spellings of its placeholders."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from penstock.store.statements import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERED: Final = re.compile(r"\$(\d+)")


@cache
def for_psycopg(name: str) -> str:
    """The statement with `%(p1)s` for `$1`."""
    return _NUMBERED.sub(r"%(p\1)s", _without_comments(name).replace("%", "%%"))


@cache
def for_sqlalchemy(name: str) -> str:
    """The statement with `:p1` for `$1`."""
    return _NUMBERED.sub(r":p\1", _without_comments(name))


def named(arguments: Sequence[Any]) -> dict[str, Any]:
    """The arguments by the names that the placeholders have."""
    return {f"p{number}": value for number, value in enumerate(arguments, start=1)}


def _without_comments(name: str) -> str:
    """A comment could hold what a driver takes for a placeholder."""
    return "\n".join(line for line in sql(name).splitlines() if not line.startswith("--"))
