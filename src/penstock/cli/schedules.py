"""`penstock schedules`: what is due when, and the operators' switches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import applications
from penstock.cli.common import WORKER, Json, Who, database, run, show
from penstock.cli.exits import told

if TYPE_CHECKING:
    from penstock.engine.app import Penstock

app = typer.Typer(name="schedules", help="Schedules: what is due when.", no_args_is_help=True)

COLUMNS = ("schedule", "what", "cadence", "state", "next_due_at", "last_ran_at", "missed_count")
Name = Annotated[str, typer.Argument(metavar="SCHEDULE", show_default=False)]


@app.command("list")
def list_schedules(*, as_json: Json = False) -> None:
    """List every schedule with its next due time."""
    run(_list(as_json=as_json))


async def _list(*, as_json: bool) -> None:
    from penstock.store import schedules

    async with database() as db:
        rows = [_row(dict(row)) for row in await schedules.listed(db)]
    show(
        rows, COLUMNS, as_json=as_json, empty="No schedules yet; `penstock scheduler` writes those of your application."
    )


def _row(found: dict[str, Any]) -> dict[str, Any]:
    """The columns people read, beside what is stored."""
    from penstock.engine.cadences import Cadence

    what = f"run {found['function']}" if found["function"] else f"enqueue {found['job_type']}"
    shown = {
        "what": what,
        "cadence": str(Cadence(found["every"], found["cron"], found["timezone"])),
        "state": _state(found),
    }
    return {**found, **shown}


def _state(found: dict[str, Any]) -> str:
    if found["running"]:
        return "running"
    if found["requested_at"] is not None:
        return "asked for"
    if found["retired_at"] is not None:
        return "retired"
    if not found["enabled"]:
        return "disabled"
    return "overdue" if found["overdue"] else "waiting"


@app.command()
def enable(schedule: Name) -> None:
    """Let a schedule run again, from its next due time on; what it missed is not made up for."""
    run(_enable(schedule))
    typer.echo(f"{schedule} runs again.")


async def _enable(schedule: str) -> None:
    from penstock.engine.scheduler import switch_on

    async with database() as db:
        await switch_on(db, schedule)


@app.command()
def disable(schedule: Name) -> None:
    """Run a schedule no more, until it is enabled; a run under way goes on."""
    run(_disable(schedule))
    typer.echo(f"{schedule} runs no more until `penstock schedules enable {schedule}`.")


async def _disable(schedule: str) -> None:
    from penstock.store import schedules

    async with database() as db:
        await schedules.switch(db, schedule, enabled=False)


@app.command("run")
def run_now(schedule: Name, *, who: Who) -> None:
    """Ask the schedulers to run a schedule now, beside its cadence. Only operators may."""
    run(_ask(schedule, who))
    typer.echo(f"Asked for {schedule}; a scheduler starts it at once, and `penstock runs list` shows it as admin.")


async def _ask(schedule: str, who: str) -> None:
    from penstock.store import schedules

    async with database() as db:
        await schedules.request(db, schedule, who)


@app.command()
def sync(application: applications.Application = None) -> None:
    """Write the schedules of an application to the database, as its scheduler does when it starts."""
    with told():
        found = applications.load(application)
        dsn = applications.login(found, WORKER)
    run(_sync(found, dsn))


async def _sync(found: Penstock, dsn: str) -> None:
    from penstock.engine.scheduler import sync
    from penstock.store import connect, schema

    pool = await connect.create_pool(dsn, size=2, name="penstock cli", prepared=found.settings.prepared_statements)
    try:
        await schema.require_current(pool)
        await sync(pool, found.functions)
    finally:
        await pool.close()
    typer.echo(f"{len(found.functions.schedules())} schedules written.")
