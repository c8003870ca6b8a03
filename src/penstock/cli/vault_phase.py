"""`penstock vault phase`: where the roll-out of NOTIFY stands, what to watch, and how to go back.

Exit codes beside those of all commands: 1 while the workers do not stand at
one phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from penstock.cli.common import Json, database, print_json, print_table, run
from penstock.cli.exits import fail

if TYPE_CHECKING:
    from penstock.apps.vault.phases import Phase, Standing

COLUMNS: Final = ("worker_id", "phase", "notify", "poll_seconds", "by_poke", "by_poll", "started_at", "heartbeat_at")
LAST: Final = 5


def phase(*, as_json: Json = False) -> None:
    """Tell at which phase of the roll-out the workers run, what to watch, and how to go on or back."""
    run(_phase(as_json=as_json))


async def _phase(*, as_json: bool) -> None:
    from penstock.apps.vault import phases
    from penstock.settings import load_settings

    settings = load_settings()
    async with database(settings=settings) as db:
        found = await phases.standings(db)
    at, here = phases.agreed(found, settings), phases.phase_here(settings)
    rows = [_row(standing) for standing in found]
    if as_json:
        print_json({"phase": None if at is None else at.number, "here": here, "workers": rows, **_advice(at)})
    else:
        _tell(rows, at, here)
    if found and at is None:
        fail("The workers do not stand at one phase of the roll-out; restart those that differ.")


def _row(standing: Standing) -> dict[str, Any]:
    return {name: getattr(standing, name) for name in COLUMNS}


def _advice(at: Phase | None) -> dict[str, Any]:
    return {} if at is None else {"does": at.does, "watch": at.watch, "back": at.back}


def _tell(rows: list[dict[str, Any]], at: Phase | None, here: int | None) -> None:
    if rows:
        print_table(rows, COLUMNS)
    else:
        typer.echo("No worker enriches items; start one with `penstock worker penstock.apps.vault:app`.")
    typer.echo(f"\nThe settings of this shell are {f'phase {here}' if here else 'no phase'}.")
    if at is not None:
        typer.echo(f"Phase {at.number}: {at.does}.")
        typer.echo(f"Watch: {', '.join(at.watch)}.")
        typer.echo(f"Back: {at.back}.")
        typer.echo(f"On: PENSTOCK_VAULT_PHASE={at.number + 1}." if at.number < LAST else "There is no further phase.")
