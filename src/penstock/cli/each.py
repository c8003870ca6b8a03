"""One step on each of several things: one that is refused is told, and the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import typer

from penstock.cli.common import database, show
from penstock.cli.exits import exit_code

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.store.claims import Db

K = TypeVar("K")


async def each(
    name: str, things: Sequence[K], step: Callable[[Db, K], Awaitable[str]], what: str, *, as_json: bool
) -> None:
    """Take *step* on each of *things*, called *name*, and show *what* it came to; the last refusal's code counts."""
    from penstock.store.refusals import explained

    rows, code = [], 0
    async with database() as db:
        for thing in things:
            try:
                rows.append({name: thing, what: await step(db, thing), "error": None})
            except Exception as error:
                known = explained(error)
                if known is None:
                    raise
                rows.append({name: thing, what: None, "error": str(known)})
                code = exit_code(known)
                typer.echo(str(known), err=True)
    show(rows, (name, what), as_json=as_json)
    if code:
        raise typer.Exit(code)
