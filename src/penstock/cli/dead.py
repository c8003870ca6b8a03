"""`penstock dead`: dead letters, and the steps that lead out of them.

    triage → remediate → validate → replay → close

A type whose policy asks for the steps takes them in this order; a plain type
may be replayed at once. A step is taken on the letters given by id, or on all
that the filters choose.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from penstock.cli.common import Json, Limit, Who, database, print_facts, print_json, print_table, run, show
from penstock.cli.exits import REFUSED, USAGE, exit_code, fail
from penstock.cli.progress import bar
from penstock.contract.dead_letters import Cause, LetterState
from penstock.contract.errors import PenstockError

if TYPE_CHECKING:
    from penstock.engine.bulk import BulkReport, Progress
    from penstock.store.claims import Db
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
Letters = Annotated[list[UUID] | None, typer.Argument(metavar="DEAD_LETTER_ID", show_default=False)]
Types = Annotated[list[str] | None, typer.Option("--type", help="Only letters of this type; may be repeated.")]
Classes = Annotated[list[str] | None, typer.Option("--class", help="Only this class of failure; may be repeated.")]
Stages = Annotated[list[str] | None, typer.Option("--stage", help="Only this stage; may be repeated.")]
Causes = Annotated[list[Cause] | None, typer.Option("--cause", help="Only this cause; may be repeated.")]
Older = Annotated[float | None, typer.Option("--older-than", min=0, help="Failed last more than so many hours ago.")]
Newer = Annotated[float | None, typer.Option("--newer-than", min=0, help="Failed last less than so many hours ago.")]
Everything = Annotated[bool, typer.Option("--all", help="All letters at which the step is due.")]
Most = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many letters.")]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The letters of a step: by id, or by filter."""

    ids: list[UUID]
    wanted: Filter | None


def _filter(  # as the options give it
    types: list[str] | None,
    classes: list[str] | None,
    stages: list[str] | None,
    causes: list[Cause] | None,
    older: float | None,
    newer: float | None,
    *,
    states: list[LetterState] | None = None,
    escalated: bool | None = None,
    limit: int | None = None,
) -> Filter:
    from penstock.store.dead_letters import Filter

    return Filter(
        job_types=types or (),
        error_classes=classes or (),
        stages=stages or (),
        states=states or (),
        causes=causes or (),
        escalated=escalated,
        older_than=None if older is None else timedelta(hours=older),
        newer_than=None if newer is None else timedelta(hours=newer),
        limit=limit,
    )


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
    wanted = _filter(
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
def triage(
    letters: Letters = None,
    *,
    cause: Annotated[Cause, typer.Option("--as", help="What the cause is.", show_default=False)],
    note: Annotated[str, typer.Option(help="What was seen.")] = "",
    types: Types = None,
    classes: Classes = None,
    stages: Stages = None,
    older: Older = None,
    newer: Newer = None,
    everything: Everything = False,
    limit: Most = None,
    who: Who,
    as_json: Json = False,
) -> None:
    """Step 1: sort the cause into one of four."""
    from penstock.engine import bulk, dead_letters

    chosen = _choose(letters, _filter(types, classes, stages, None, older, newer, limit=limit), everything=everything)
    _step(
        chosen,
        lambda db, one: dead_letters.triage(db, one, cause, operator=who, note=note),
        lambda db, wanted, told: bulk.bulk_triage(db, wanted, cause, operator=who, note=note, progress=told),
        as_json=as_json,
    )


@app.command()
def remediate(
    letters: Letters = None,
    *,
    action: Annotated[str, typer.Option(help="What was done about the cause.", show_default=False)],
    types: Types = None,
    classes: Classes = None,
    stages: Stages = None,
    causes: Causes = None,
    older: Older = None,
    newer: Newer = None,
    everything: Everything = False,
    limit: Most = None,
    who: Who,
    as_json: Json = False,
) -> None:
    """Step 2: record what was done about the cause."""
    from penstock.engine import bulk, dead_letters

    chosen = _choose(letters, _filter(types, classes, stages, causes, older, newer, limit=limit), everything=everything)
    _step(
        chosen,
        lambda db, one: dead_letters.remediate(db, one, action, operator=who),
        lambda db, wanted, told: bulk.bulk_remediate(db, wanted, action, operator=who, progress=told),
        as_json=as_json,
    )


@app.command()
def validate(
    letters: Letters = None,
    *,
    ticket: Annotated[str, typer.Option(help="The ticket with the evidence.", show_default=False)],
    replay_safe: Annotated[bool, typer.Option("--replay-safe", help="A replay does no harm.")] = False,
    types: Types = None,
    classes: Classes = None,
    stages: Stages = None,
    causes: Causes = None,
    older: Older = None,
    newer: Newer = None,
    everything: Everything = False,
    limit: Most = None,
    who: Who,
    as_json: Json = False,
) -> None:
    """Step 3: name the ticket, and say that a replay does no harm."""
    from penstock.engine import bulk, dead_letters

    chosen = _choose(letters, _filter(types, classes, stages, causes, older, newer, limit=limit), everything=everything)
    _step(
        chosen,
        lambda db, one: dead_letters.validate(db, one, ticket, replay_safe=replay_safe, operator=who),
        lambda db, wanted, told: bulk.bulk_validate(
            db, wanted, ticket, replay_safe=replay_safe, operator=who, progress=told
        ),
        as_json=as_json,
    )


@app.command()
def replay(
    letters: Letters = None,
    *,
    full_restart: Annotated[bool, typer.Option("--full-restart", help="Begin at the first stage.")] = False,
    types: Types = None,
    classes: Classes = None,
    stages: Stages = None,
    causes: Causes = None,
    older: Older = None,
    newer: Newer = None,
    everything: Everything = False,
    limit: Most = None,
    who: Who,
    as_json: Json = False,
) -> None:
    """Step 4: start the work again, at the stage that failed."""
    from penstock.engine import bulk
    from penstock.engine import replay as engine

    chosen = _choose(letters, _filter(types, classes, stages, causes, older, newer, limit=limit), everything=everything)
    _step(
        chosen,
        lambda db, one: engine.replay(db, one, operator=who, full_restart=full_restart),
        lambda db, wanted, told: bulk.bulk_replay(db, wanted, operator=who, full_restart=full_restart, progress=told),
        as_json=as_json,
    )


@app.command()
def close(
    letters: Letters = None,
    *,
    notes: Annotated[str, typer.Option(help="What was learnt.", show_default=False)],
    without_replay: Annotated[bool, typer.Option("--without-replay", help="Give the work up.")] = False,
    delivery_verified: Annotated[bool, typer.Option("--delivery-verified", help="Its effects were looked up.")] = False,
    types: Types = None,
    classes: Classes = None,
    stages: Stages = None,
    causes: Causes = None,
    older: Older = None,
    newer: Newer = None,
    everything: Everything = False,
    limit: Most = None,
    who: Who,
    as_json: Json = False,
) -> None:
    """Step 5: close a letter whose replay is completed."""
    from penstock.engine import bulk, dead_letters

    chosen = _choose(letters, _filter(types, classes, stages, causes, older, newer, limit=limit), everything=everything)
    given: dict[str, Any] = {"without_replay": without_replay, "delivery_verified": delivery_verified, "operator": who}
    _step(
        chosen,
        lambda db, one: dead_letters.close(db, one, notes, **given),
        lambda db, wanted, told: bulk.bulk_close(db, wanted, notes, progress=told, **given),
        as_json=as_json,
    )


def _choose(letters: list[UUID] | None, wanted: Filter, *, everything: bool) -> Chosen:
    """By id or by filter; nobody touches everything by leaving an option out."""
    from penstock.store.dead_letters import Filter

    by_filter = wanted != Filter(limit=wanted.limit) or everything
    if letters and by_filter:
        fail("Give ids or filters, not both.", USAGE)
    if not letters and not by_filter:
        fail("Which dead letters? Give their ids, a filter such as --type or --class, or --all.", USAGE)
    return Chosen(letters or [], wanted if by_filter else None)


def _step(
    chosen: Chosen,
    one: Callable[[Db, UUID], Awaitable[Any]],
    many: Callable[[Db, Filter, Progress], Awaitable[BulkReport]],
    *,
    as_json: bool,
) -> None:
    code = run(
        _many(chosen.wanted, many, as_json=as_json) if chosen.wanted else _ones(chosen.ids, one, as_json=as_json)
    )
    if code:
        raise typer.Exit(code)


async def _many(wanted: Filter, step: Callable[[Db, Filter, Progress], Awaitable[BulkReport]], *, as_json: bool) -> int:
    async with database() as db:
        with bar("dead letters") as told:
            report = await step(db, wanted, told)
    _report(report.done, report.refused, as_json=as_json)
    return REFUSED if report.refused else 0


async def _ones(ids: list[UUID], step: Callable[[Db, UUID], Awaitable[Any]], *, as_json: bool) -> int:
    done: list[UUID] = []
    refused: list[tuple[UUID, str]] = []
    code = 0
    async with database() as db:
        for dead_letter_id in ids:
            try:
                answer = await step(db, dead_letter_id)
            except PenstockError as error:
                refused.append((dead_letter_id, str(error)))
                code = exit_code(error)
            else:
                done.append(dead_letter_id)
                if isinstance(answer, UUID) and not as_json:
                    typer.echo(f"replay of {dead_letter_id}: job {answer}")
    _report(done, refused, as_json=as_json)
    return code


def _report(done: list[UUID], refused: list[tuple[UUID, str]], *, as_json: bool) -> None:
    if as_json:
        print_json({"done": done, "refused": [{"dead_letter_id": one, "error": why} for one, why in refused]})
        return
    for _, why in refused:
        typer.echo(why, err=True)
    typer.echo(f"{len(done)} done, {len(refused)} refused.")
