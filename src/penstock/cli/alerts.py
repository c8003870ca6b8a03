"""`penstock alerts`: what somebody should look at."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Final

import typer

from penstock.cli.common import Json, Limit, Who, database, run, show

app = typer.Typer(name="alerts", help="Alerts: list and acknowledge them.", no_args_is_help=True)

MOST: Final = 2**63 - 1  # what a bigint holds
COLUMNS = ("alert_id", "severity", "kind", "subject", "created_at", "acknowledged_by")


@app.command("list")
def list_alerts(
    *,
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Those already acknowledged too.")] = False,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List alerts that nobody has acknowledged, the newest first."""
    run(_list(kind, limit, every=every, as_json=as_json))


async def _list(kind: str | None, limit: int, *, every: bool, as_json: bool) -> None:
    from penstock.store import alerts

    async with database() as db:
        rows = [asdict(alert) for alert in await alerts.find(db, kind=kind, unacknowledged=not every, limit=limit)]
    show(rows, COLUMNS, as_json=as_json, empty="No alerts.")


@app.command()
def ack(
    alert_ids: Annotated[list[int], typer.Argument(metavar="ALERT_ID", max=MOST, show_default=False)], *, who: Who
) -> None:
    """Say that you have seen alerts."""
    run(_ack(alert_ids, who))


async def _ack(alert_ids: list[int], who: str) -> None:
    from penstock.engine import alerts

    async with database() as db:
        for alert_id in alert_ids:
            first = await alerts.acknowledge(db, alert_id, who=who)
            typer.echo(f"alert {alert_id} is acknowledged{'' if first else ' already'}")
