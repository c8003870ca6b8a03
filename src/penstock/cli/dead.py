"""`penstock dead`: dead letters, and the steps that lead out of them.

    triage → remediate → validate → replay → close

A type whose policy asks for the steps takes them in this order; a plain type
may be replayed at once. A step is taken on the letters given by id, or on all
that the filters choose.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from penstock.cli.common import Json, Limit, Who, database, print_facts, print_json, print_table, run, show
from penstock.cli.letters import (
    Causes,
    Chosen,
    Classes,
    Newer,
    Older,
    Stages,
    Types,
    make_filter,
    on_letters,
    take_step,
)
from penstock.contract.dead_letters import Cause, LetterState

if TYPE_CHECKING:
    from penstock.store.dead_letters import Filter

app = typer.Typer(name="dead", help="Dead letters: triage, remediate, validate, replay, close.", no_args_is_help=True)

COLUMNS = (
    "dead_letter_id",
    "job_type",
    "stage",
    "error_class",
    "reason",
    "attempts",
    "last_failure_at",
    "state",
    "cause",
)
EVENT_COLUMNS = ("at", "step", "operator", "detail")

Letter = Annotated[UUID, typer.Argument(metavar="DEAD_LETTER_ID", show_default=False)]


@app.command("list")
def list_letters(
    *,
    types: Types = None,
    classes: Classes = None,
    stages: Stages = None,
    causes: Causes = None,
    older: Older = None,
    newer: Newer = None,
    states: Annotated[
        list[LetterState] | None, typer.Option("--state", help="Only this state; default: all but resolved.")
    ] = None,
    escalated: Annotated[
        bool | None, typer.Option("--escalated/--not-escalated", help="Only (not) escalated ones.")
    ] = None,
    limit: Limit = 50,
    as_json: Json = False,
) -> None:
    """List dead letters, the oldest first."""
    unresolved: list[LetterState] = [state for state in LetterState if state is not LetterState.RESOLVED]
    wanted = make_filter(
        types, classes, stages, causes, older, newer, states=states or unresolved, escalated=escalated, limit=limit
    )
    run(_list(wanted, as_json=as_json))


async def _list(wanted: Filter, *, as_json: bool) -> None:
    from penstock.store import dead_letters

    async with database() as db:
        rows = [asdict(letter) for letter in await dead_letters.find(db, wanted)]
    show(rows, COLUMNS, as_json=as_json, empty="No dead letters.")


@app.command()
def summary(*, as_json: Json = False) -> None:
    """Count dead letters by type, stage, class and state."""
    run(_summary(as_json=as_json))


async def _summary(*, as_json: bool) -> None:
    from penstock.store import dead_letters

    async with database() as db:
        rows = [dict(row) for row in await dead_letters.summarize(db)]
    show(rows, list(rows[0]) if rows else (), as_json=as_json, empty="No dead letters.")


@app.command("show")
def show_letter(dead_letter_id: Letter, *, as_json: Json = False) -> None:
    """Show one dead letter with its stack and every step taken on it."""
    run(_show(dead_letter_id, as_json=as_json))


async def _show(dead_letter_id: UUID, *, as_json: bool) -> None:
    from penstock.store import dead_letters

    async with database() as db:
        letter = asdict(await dead_letters.get(db, dead_letter_id))
        events = [asdict(event) for event in await dead_letters.events(db, dead_letter_id)]
    if as_json:
        print_json({**letter, "events": events})
        return
    stack = letter.pop("last_stack")
    print_facts(letter)
    typer.echo(f"\nlast stack\n{stack}")
    if events:
        typer.echo("\nsteps")
        print_table(events, EVENT_COLUMNS)


@app.command()
@on_letters(leave_out="causes")
def triage(
    chosen: Chosen,
    *,
    cause: Annotated[Cause, typer.Option("--as", help="What the cause is.", show_default=False)],
    note: Annotated[str, typer.Option(help="What was seen.")] = "",
    who: Who,
    as_json: Json = False,
) -> None:
    """Step 1: sort the cause into one of four."""
    from penstock.engine import bulk, dead_letters

    take_step(
        chosen,
        lambda db, one: dead_letters.triage(db, one, cause, operator=who, note=note),
        lambda db, wanted, told: bulk.bulk_triage(db, wanted, cause, operator=who, note=note, progress=told),
        as_json=as_json,
    )


@app.command()
@on_letters()
def remediate(
    chosen: Chosen,
    *,
    action: Annotated[str, typer.Option(help="What was done about the cause.", show_default=False)],
    who: Who,
    as_json: Json = False,
) -> None:
    """Step 2: record what was done about the cause."""
    from penstock.engine import bulk, dead_letters

    take_step(
        chosen,
        lambda db, one: dead_letters.remediate(db, one, action, operator=who),
        lambda db, wanted, told: bulk.bulk_remediate(db, wanted, action, operator=who, progress=told),
        as_json=as_json,
    )


@app.command()
@on_letters()
def validate(
    chosen: Chosen,
    *,
    ticket: Annotated[str, typer.Option(help="The ticket with the evidence.", show_default=False)],
    replay_safe: Annotated[bool, typer.Option("--replay-safe", help="A replay does no harm.")] = False,
    who: Who,
    as_json: Json = False,
) -> None:
    """Step 3: name the ticket, and say that a replay does no harm."""
    from penstock.engine import bulk, dead_letters

    take_step(
        chosen,
        lambda db, one: dead_letters.validate(db, one, ticket, replay_safe=replay_safe, operator=who),
        lambda db, wanted, told: bulk.bulk_validate(
            db, wanted, ticket, replay_safe=replay_safe, operator=who, progress=told
        ),
        as_json=as_json,
    )


@app.command()
@on_letters()
def replay(
    chosen: Chosen,
    *,
    full_restart: Annotated[bool, typer.Option("--full-restart", help="Begin at the first stage.")] = False,
    who: Who,
    as_json: Json = False,
) -> None:
    """Step 4: start the work again, at the stage that failed."""
    from penstock.engine import bulk
    from penstock.engine import replay as engine

    take_step(
        chosen,
        lambda db, one: engine.replay(db, one, operator=who, full_restart=full_restart),
        lambda db, wanted, told: bulk.bulk_replay(db, wanted, operator=who, full_restart=full_restart, progress=told),
        as_json=as_json,
    )


@app.command()
@on_letters()
def close(
    chosen: Chosen,
    *,
    notes: Annotated[str, typer.Option(help="What was learnt.", show_default=False)],
    without_replay: Annotated[bool, typer.Option("--without-replay", help="Give the work up.")] = False,
    delivery_verified: Annotated[bool, typer.Option("--delivery-verified", help="Its effects were looked up.")] = False,
    who: Who,
    as_json: Json = False,
) -> None:
    """Step 5: close a letter whose replay is completed."""
    from penstock.engine import bulk, dead_letters

    given: dict[str, Any] = {"without_replay": without_replay, "delivery_verified": delivery_verified, "operator": who}
    take_step(
        chosen,
        lambda db, one: dead_letters.close(db, one, notes, **given),
        lambda db, wanted, told: bulk.bulk_close(db, wanted, notes, progress=told, **given),
        as_json=as_json,
    )
