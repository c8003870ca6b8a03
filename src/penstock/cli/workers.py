"""`penstock workers`: who works, by their own word."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.common import Json, database, run, show

app = typer.Typer(name="workers", help="The workers and their heartbeats.", no_args_is_help=True)

COLUMNS = (
    "worker_id",
    "state",
    "host",
    "pid",
    "types",
    "concurrency",
    "running",
    "rss_mb",
    "started_at",
    "heartbeat_at",
)


@app.callback()
def group() -> None:
    """The workers and their heartbeats."""


@app.command("list")
def list_workers(
    *, alive: Annotated[bool, typer.Option("--alive", help="Only those that are alive.")] = False, as_json: Json = False
) -> None:
    """List workers, the newest heartbeat first."""
    run(_list(alive=alive, as_json=as_json))


async def _list(*, alive: bool, as_json: bool) -> None:
    from penstock.store import workers

    async with database() as db:
        found = await workers.listed(db)
    rows = [
        {
            **row,
            "state": "alive" if row["alive"] else "stopped" if row["stopped_at"] else "silent",
            "rss_mb": None if row["rss_bytes"] is None else round(row["rss_bytes"] / 1024 / 1024),
        }
        for row in map(dict, found)
        if row["alive"] or not alive
    ]
    show(rows, COLUMNS, as_json=as_json, empty="No workers; start one with `penstock worker MODULE:APP`.")
