"""`penstock retention`: how long records are kept, where no worker can change it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from penstock.cli.common import Json, Who, database, run, show

app = typer.Typer(name="retention", help="How long audit, runs and alerts are kept.", no_args_is_help=True)

COLUMNS = ("what", "days", "set_by", "db_user", "set_at")


@app.command("list")
def list_spans(*, as_json: Json = False) -> None:
    """Show how long each kind of record is kept at least; settings may ask for longer."""
    run(_list(as_json=as_json))


async def _list(*, as_json: bool) -> None:
    from penstock.store import retention

    async with database() as db:
        rows = [{**row, "days": row["keep"].days} for row in await retention.listed(db)]
    show([{name: row[name] for name in COLUMNS} for row in rows], COLUMNS, as_json=as_json)


@app.command("set")
def set_span(
    what: Annotated[str, typer.Argument(help="audit, runs or alerts.", show_default=False)],
    days: Annotated[int, typer.Argument(min=1, max=36_500, show_default=False)],
    *,
    who: Who,
) -> None:
    """Keep records for so many days. Shorter ones take effect with the next run of retention. Only operators may."""
    run(_set(what, days, who))
    typer.echo(f"{what} is kept for {days} days.")


async def _set(what: str, days: int, who: str) -> None:
    from penstock.store import retention

    async with database() as db:
        await retention.set_span(db, what, timedelta(days=days), who=who)
