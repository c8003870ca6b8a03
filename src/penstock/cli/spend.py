"""`penstock spend`: what calls to models have cost, by day, type, model and pair of languages."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from penstock.cli.common import Json, database, run, show

app = typer.Typer(name="spend", add_completion=False)

MICROS = 1_000_000
NAMES = {"day": "day", "type": "job_type", "model": "model", "pair": "pair", "execution": "execution"}


class Part(StrEnum):
    """What the sums are told apart by."""

    DAY = "day"
    TYPE = "type"
    MODEL = "model"
    PAIR = "pair"
    EXECUTION = "execution"


@app.command()
def spend(
    *,
    by: Annotated[list[Part] | None, typer.Option("--by", help="Tell the sums apart by this; may be repeated.")] = None,
    since: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="From this day on (UTC).")] = None,
    until: Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Up to this day (UTC).")] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only this type.")] = None,
    as_json: Json = False,
) -> None:
    """Show tokens and cost; by type, model and pair of languages unless --by says otherwise."""
    parts = [str(part) for part in by or (Part.TYPE, Part.MODEL, Part.PAIR)]
    run(_spend(parts, _day(since), _day(until), job_type, as_json=as_json))


async def _spend(
    parts: list[str], since: date | None, until: date | None, job_type: str | None, *, as_json: bool
) -> None:
    from penstock.store import spend as store

    async with database() as db:
        found = await store.report(db, parts, since=since, until=until, job_type=job_type)
    asked = [NAMES[part] for part in NAMES if part in parts]
    rows = [_row(dict(row), asked) for row in found]
    columns = (*asked, "calls", "input_tokens", "output_tokens", "cost")
    show(rows, columns, as_json=as_json, empty="Nothing was spent.")


def _row(row: dict[str, Any], asked: list[str]) -> dict[str, Any]:
    counts = {name: row[name] for name in ("calls", "input_tokens", "output_tokens", "cost_micros")}
    return {**{name: row[name] for name in asked}, **counts, "cost": f"{row['cost_micros'] / MICROS:.4f}"}


def _day(moment: datetime | None) -> date | None:
    return None if moment is None else moment.date()
