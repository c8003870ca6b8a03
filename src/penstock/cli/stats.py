"""`penstock stats`: the whole at a glance, in constant time."""

from __future__ import annotations

import typer

from penstock.cli.common import Json, database, print_facts, print_json, run, show

app = typer.Typer(name="stats", add_completion=False)

COLUMNS = ("job_type", "ready", "later", "waiting", "processing", "batch_submitted", "dead_letters", "state")


@app.command()
def stats(*, as_json: Json = False) -> None:
    """Show what waits, what runs and what needs a person."""
    run(_stats(as_json=as_json))


async def _stats(*, as_json: bool) -> None:
    from penstock.store import listings

    async with database() as db:
        rows = [dict(row) for row in await listings.stats(db)]
        totals = await listings.totals(db)
    for row in rows:
        row["state"] = (
            "paused" if row["paused"] else "running" if row["breaker"] == "closed" else f"breaker {row['breaker']}"
        )
    if as_json:
        print_json({**totals, "counted_to": listings.MOST_COUNTED, "types": rows})
        return
    counts = ("ready", "later", "batch_submitted", "dead_letters")
    most = listings.MOST_COUNTED
    shown = [{**row, **{name: f"{most}+" for name in counts if row[name] >= most}} for row in rows]
    show(shown, COLUMNS, as_json=False, empty="No types yet; a worker writes them, or `penstock types sync`.")
    typer.echo()
    print_facts(totals)
