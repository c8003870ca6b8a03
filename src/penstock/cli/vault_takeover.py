"""`penstock vault takeover`: how the take-over of an outbox went, and the rows that could not become a job.

Exit codes beside those of all commands: 1 while rows are in quarantine.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.common import Json, Limit, database, print_facts, print_json, run, show
from penstock.cli.exits import fail

if TYPE_CHECKING:
    from penstock.apps.vault.takeover import Retried

takeover = typer.Typer(name="takeover", help="The outbox of before: what became of its rows.", no_args_is_help=True)

COLUMNS: Final = ("quarantine_id", "id", "item_id", "status", "created_at", "problem")


@takeover.command()
def status(*, as_json: Json = False) -> None:
    """Show how the take-over went and what is left to do."""
    run(_status(as_json=as_json))


@takeover.command()
def quarantine(
    *,
    retry: Annotated[bool, typer.Option("--retry", help="Move the rows whose problem is gone.")] = False,
    after: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Only rows behind this number.")] = 0,
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """List the rows that could not become a job, each with its problem; --retry tries them all again."""
    run(_retry(as_json=as_json) if retry else _list(after, limit, as_json=as_json))


async def _status(*, as_json: bool) -> None:
    from penstock.apps.vault import takeover as took

    async with database() as db:
        found = await took.status(db)
    print_json(found) if as_json else print_facts({**asdict(found), "seconds": round(found.seconds, 3)})
    _tell_left(found.quarantined)


async def _list(after: int, limit: int, *, as_json: bool) -> None:
    from penstock.apps.vault import takeover as took

    async with database() as db:
        rows = [asdict(row) for row in await took.quarantine(db, after=after, limit=limit)]
    show(rows, COLUMNS, as_json=as_json, empty="Nothing is in quarantine.")
    if rows:
        raise typer.Exit(1)


async def _retry(*, as_json: bool) -> None:
    from penstock.apps.vault import takeover as took

    async with database() as db:
        done: Retried = await took.retry(db)
    print_json(done) if as_json else typer.echo(f"{done.moved} rows have moved.")
    _tell_left(done.quarantined)


def _tell_left(quarantined: int) -> None:
    if quarantined:
        fail(f"{quarantined} rows are in quarantine; `penstock vault takeover quarantine` names their problems.")
