"""`penstock effects`: the ledger of what was done outside the database, and what a person saw of it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from penstock.cli.common import Json, Limit, Who, database, parse_json, run, show
from penstock.cli.each import each
from penstock.cli.exits import USAGE, fail, told
from penstock.contract.errors import NotFound, StepRefused
from penstock.contract.payloads import encode

if TYPE_CHECKING:
    from penstock.store.claims import Db

app = typer.Typer(name="effects", help="The ledger of outside effects.", no_args_is_help=True)

COLUMNS = ("effect_key", "kind", "state", "job_id", "perform_count", "intended_at", "done_at")


class EffectState(StrEnum):
    """Where an effect stands; `open` is intended or uncertain."""

    OPEN = "open"
    INTENDED = "intended"
    UNCERTAIN = "uncertain"
    DONE = "done"
    ABANDONED = "abandoned"


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
    """List outside effects, the newest first; open ones, which may or may not have happened, the oldest first."""
    run(_list(job_id, state, kind, limit, as_json=as_json))


async def _list(job_id: UUID | None, state: EffectState | None, kind: str | None, limit: int, *, as_json: bool) -> None:
    from penstock.store import listings

    async with database() as db:
        found = await listings.effects(db, job_id=job_id, state=state and str(state), kind=kind, limit=limit)
    show([dict(row) for row in found], COLUMNS, as_json=as_json, empty="No effects.")


@app.command()
def resolve(
    effect_keys: Annotated[list[str], typer.Argument(metavar="EFFECT_KEY", show_default=False)],
    *,
    happened: Annotated[bool, typer.Option("--happened/--absent", help="What you saw outside.", show_default=False)],
    result: Annotated[str | None, typer.Option(help="What it gave, as JSON: the handler gets it.")] = None,
    who: Who,
    as_json: Json = False,
) -> None:
    """Say of open effects whether they happened; then replay their jobs. Only operators may."""
    if result is not None:
        if not happened:
            fail("An effect that did not happen has no result; leave --result out.", USAGE)
        with told():
            result = encode(parse_json("result", result, as_in='{"id": "m-17"}'))

    async def one(db: Db, effect_key: str) -> str:
        return await _resolve(db, effect_key, happened=happened, who=who, result=result)

    run(each("effect_key", effect_keys, one, "state", as_json=as_json))


async def _resolve(db: Db, effect_key: str, *, happened: bool, who: str, result: str | None) -> str:
    from penstock.store import effects

    state = await effects.resolve(db, effect_key, happened=happened, who=who, result=result)
    if state is None:
        raise NotFound("effect", effect_key)
    if state != (EffectState.DONE if happened else EffectState.ABANDONED):
        raise StepRefused(f"effect {effect_key} is {state} and stays so: only an open one can be resolved")
    return state
