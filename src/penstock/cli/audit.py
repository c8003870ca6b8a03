"""`penstock audit`: what operators did, by which login, under which name."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from penstock.cli.common import Json, Limit, database, run, show

app = typer.Typer(name="audit", help="What operators did: who, what, why.", no_args_is_help=True)

COLUMNS = ("at", "db_user", "actor", "action", "subject", "reason")


@app.command("list")
def list_acts(
    *,
    action: Annotated[str | None, typer.Option(help="Only this action, such as cancel or open_payload.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List the acts of operators, the newest first: the login (db_user), and the name it gave (actor)."""
    run(_list(action, limit, as_json=as_json))


async def _list(action: str | None, limit: int, *, as_json: bool) -> None:
    from penstock.store import audit

    async with database() as db:
        rows = [{**row, "subject": json.loads(row["subject"])} for row in await audit.acts(db, action, limit)]
    show(rows, COLUMNS, as_json=as_json, empty="No operator has done anything yet.")
