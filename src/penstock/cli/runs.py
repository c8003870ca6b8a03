"""`penstock runs`: the records of bounded runs, and of ticks that had nothing to do."""

from __future__ import annotations

import json
from typing import Annotated, Any
from uuid import UUID

import typer

from penstock.cli.common import Json, Limit, database, print_facts, print_json, run, show

app = typer.Typer(name="runs", help="The records of bounded runs.", no_args_is_help=True)

COLUMNS = (
    "run_id", "function", "trigger", "worker_id", "started_at", "seconds", "claimed_count", "succeeded_count",
    "failed_count", "requeued_count",
)  # fmt: skip
Function = Annotated[str | None, typer.Option(help="Only runs of this function.")]


@app.command("list")
def list_runs(*, function: Function = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List runs, the newest first."""
    run(_list(function, limit, as_json=as_json))


async def _list(function: str | None, limit: int, *, as_json: bool) -> None:
    from penstock.store import runs

    async with database() as db:
        rows = [_row(dict(row)) for row in await runs.listed(db, function=function, limit=limit)]
    show(rows, COLUMNS, as_json=as_json, empty="No runs yet.")


@app.command("show")
def show_run(
    run_id: Annotated[UUID, typer.Argument(metavar="RUN_ID", show_default=False)], *, as_json: Json = False
) -> None:
    """Show one run with its counts by model and by error."""
    run(_show(run_id, as_json=as_json))


async def _show(run_id: UUID, *, as_json: bool) -> None:
    from penstock.store import runs

    async with database() as db:
        found = _row(dict(await runs.get(db, run_id)))
    print_json(found) if as_json else print_facts(found)


@app.command()
def skips(*, function: Function = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List ticks that had nothing to do, the newest first."""
    run(_skips(function, limit, as_json=as_json))


async def _skips(function: str | None, limit: int, *, as_json: bool) -> None:
    from penstock.store import runs

    async with database() as db:
        rows = [dict(row) for row in await runs.skips(db, function=function, limit=limit)]
    show(rows, ("at", "function", "reason"), as_json=as_json, empty="No skips.")


def _row(found: dict[str, Any]) -> dict[str, Any]:
    took = None if found["finished_at"] is None else (found["finished_at"] - found["started_at"]).total_seconds()
    return {
        **found,
        "seconds": took,
        "by_model": json.loads(found["by_model"]),
        "by_error": json.loads(found["by_error"]),
    }
