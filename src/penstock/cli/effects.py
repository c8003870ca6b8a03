"""`penstock effects`: the ledger of what was done outside the database."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer

from penstock.cli.common import Json, Limit, database, run, show

app = typer.Typer(name="effects", help="The ledger of outside effects.", no_args_is_help=True)

COLUMNS = ("effect_key", "kind", "state", "job_id", "perform_count", "intended_at", "done_at")


class EffectState(StrEnum):
    """Where an effect stands; `open` is intended or uncertain."""

    OPEN = "open"
    INTENDED = "intended"
    UNCERTAIN = "uncertain"
    DONE = "done"
    ABANDONED = "abandoned"


@app.callback()
def group() -> None:
    """The ledger of outside effects."""


@app.command("list")
def list_effects(
    *,
    job_id: Annotated[UUID | None, typer.Option("--job", help="Only effects of this job.")] = None,
    state: Annotated[
        EffectState | None, typer.Option(help="Only this state; open: may or may not have happened.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List outside effects; open ones the oldest first."""
    run(_list(job_id, state, kind, limit, as_json=as_json))


async def _list(job_id: UUID | None, state: EffectState | None, kind: str | None, limit: int, *, as_json: bool) -> None:
    from penstock.store import listings

    async with database() as db:
        found = await listings.effects(db, job_id=job_id, state=state and str(state), kind=kind, limit=limit)
    show([dict(row) for row in found], COLUMNS, as_json=as_json, empty="No effects.")
